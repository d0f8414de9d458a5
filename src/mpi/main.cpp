// truemax-mpi: the program `truemax` on the ranks of MPI.
#include <mpi.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

#include "cli/command.hpp"
#include "core/instruction_sets.hpp"
#include "mpi/last_words.hpp"
#include "mpi/mpi_ranks.hpp"
#include "ranks/ranks.hpp"

namespace truemax {
namespace {

// All ranks say the same, so that only the first is heard. What the others write to standard error is kept:
// one of them may be the only one that fails.
class OneVoice {
 public:
  explicit OneVoice(bool speaks) {
    if (speaks) return;
    if (std::freopen("/dev/null", "w", stdout) == nullptr) return;
    kept_ = std::tmpfile();
    if (kept_ == nullptr) return;
    stderr_ = dup(STDERR_FILENO);
    dup2(fileno(kept_), STDERR_FILENO);
  }

  // Writes what was kept.
  void speak() {
    if (stderr_ < 0) return;
    std::fflush(stderr);
    std::rewind(kept_);
    std::array<char, 4096> text;
    for (std::size_t size = 0; (size = std::fread(text.data(), 1, text.size(), kept_)) > 0;)
      if (write(stderr_, text.data(), size) < 0) return;
  }

  // Where this rank is heard.
  int out() const { return stderr_ < 0 ? STDERR_FILENO : stderr_; }

 private:
  std::FILE* kept_ = nullptr;
  int stderr_ = -1;
};

// An error that all ranks have found ends them all alike. One that only some have found leaves the others
// waiting for them: then all are ended.
int finish(MpiRanks& ranks, OneVoice& voice, LastWords& last, int code) {
  constexpr double kPatience = 2, kForever = 1e9;
  if (ranks.size() == 1) return code;
  std::fflush(stdout);
  const double own = ranks.first() ? kPatience : 2 * kPatience;  // the first one's message is enough
  if (ranks.all_arrive(code == kSuccess ? kForever : own)) return code;
  voice.speak();
  if (ranks.lost()) last.say();
  return MPI_Abort(MPI_COMM_WORLD, code);
}

// Every rank uses the vector instructions that all processors have: what ranks compute for themselves must
// have the same bits on all of them.
void share_instructions(Ranks& ranks) {
  std::int64_t own = 0;
  for (const std::int64_t set : instruction_sets()) own |= set;
  std::vector<std::int64_t> all(ranks.size());
  ranks.gather_everywhere(std::as_bytes(std::span(&own, 1)), std::as_writable_bytes(std::span(all)));
  use_only_instruction_sets(std::accumulate(all.begin(), all.end(), own, std::bit_and<>()));
}

int run(int argc, char** argv) {
  MpiRanks ranks;
  const UseRanks use(ranks);
  OneVoice voice(ranks.first());
  LastWords last(ranks, argc, argv, voice.out());
  share_instructions(ranks);
  return finish(ranks, voice, last, run_program(argc, argv));
}

}  // namespace
}  // namespace truemax

int main(int argc, char** argv) {
  truemax::share_heap_if_limited();
  int provided = 0;
  if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) return truemax::kBug;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  const int code = truemax::run(argc, argv);
  MPI_Finalize();
  return code;
}
