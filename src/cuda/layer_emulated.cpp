// The library of the layer with its kernels on the CPU: tests of the Python package use it where there is no
// GPU.
#include <cstdlib>

#include "cuda/layer_run.hpp"

namespace truemax::cuda {
namespace {

struct EmulatedLauncher {
  std::uint64_t processors() const { return 2; }
  template <class Kernel>
  void launch(const Kernel& kernel, std::uint32_t blocks, std::uint32_t threads, std::size_t shared_bytes) {
    run_emulated(blocks, threads, shared_bytes, kernel);
  }
  static bool score(const ScoredRows& /*rows*/) { return false; }
  static bool multiply(const LayerCall& /*call*/) { return false; }
};

template <class Work>
int with_run(const LayerCall* call, void* /*stream*/, std::uint32_t /*processors*/, const Work& work) {
  if (call->size != sizeof(LayerCall)) return 1;
  EmulatedLauncher launcher;
  LayerRun<EmulatedLauncher> run(*call, launcher);
  work(run);
  return 0;
}

}  // namespace
}  // namespace truemax::cuda

#include "cuda/layer_exports.hpp"

extern "C" {
TRUEMAX_EXPORT const char* truemax_cuda_layer_message(int /*error*/) {
  return "the call does not fit the library";
}
TRUEMAX_EXPORT int truemax_cuda_layer_emulated() {
  return 1;
}
}
