// The layer of include/truemax/c.h: checks what comes from the caller, and hands it to layer/.
#include <fmt/format.h>

#include <memory>
#include <new>

#include "api/c_call.hpp"
#include "core/parallel.hpp"
#include "layer/layer.hpp"
#include "truemax/c.h"

namespace {
using namespace truemax;  // NOLINT(google-build-using-namespace)
using api::call;
using api::require;
using api::require_size;
}  // namespace

struct tmx_layer {
  std::shared_ptr<Layer> inside;
};
struct tmx_pass {
  std::shared_ptr<Layer> layer;
  std::unique_ptr<LayerPass> inside;
};

namespace {

LayerDraw draw_of(tmx_layer_draw draw) {
  switch (draw) {
    case TMX_DRAW_UNIFORM:
      return LayerDraw::uniform;
    case TMX_DRAW_COUNTS:
      return LayerDraw::counts;
    case TMX_DRAW_RECENT:
      return LayerDraw::recent;
  }
  throw UserError("there is no such draw; use one of tmx_layer_draw");
}

// Numbers from one row to the next. Rows must not overlap.
std::ptrdiff_t stride_of(std::int64_t bytes, std::size_t features, const char* name) {
  constexpr std::int64_t kNumber = sizeof(float);
  const auto row = static_cast<std::int64_t>(features) * kNumber;
  if (bytes < row || bytes % kNumber != 0)
    throw UserError(fmt::format("{} is {} bytes; give a multiple of {} of at least {}, the bytes of a row",
                                name, bytes, kNumber, row));
  return bytes / kNumber;
}

enum class Use { forward, backward, exact };

LayerArrays arrays_of(const tmx_layer_arrays* given, const LayerOptions& options, Use use) {
  require(given);
  require_size(given->size, sizeof(tmx_layer_arrays), "tmx_layer_arrays");
  if (given->device != -1)
    throw UserError(
        fmt::format("device is {}; only the CPU, -1, is possible yet: copy the arrays there", given->device));
  if (given->stream != nullptr) throw UserError("stream is not NULL; the CPU has no streams: set it to NULL");
  if (given->type != TMX_FLOAT32) throw UserError("type is not TMX_FLOAT32; convert the arrays to float32");
  require(given->weight);
  LayerArrays out;
  out.weight = given->weight;
  out.weight_stride = stride_of(given->weight_stride, options.features, "weight_stride");
  out.bias = given->bias;
  if (use == Use::exact) return out;
  require(given->counters);
  if (given->counters[0] < 0 || given->counters[1] < 0)
    throw UserError(
        fmt::format("counters are {} and {}; they start at 0", given->counters[0], given->counters[1]));
  out.seed = given->seed, out.counters = given->counters;
  if (given->rows > 0) require(given->u);
  out.u = given->u, out.rows = given->rows;
  out.columns = given->columns;
  if (use == Use::backward) {
    static_assert(sizeof(ClassMoments) == 6 * sizeof(float));
    require(given->moments, given->columns);
    out.moments = reinterpret_cast<ClassMoments*>(given->moments);
  }
  if (options.draw == LayerDraw::recent) {
    require(given->recent, given->recent_count);
    if (given->recent_size < 1) throw UserError("recent_size is 0; give room for at least one label");
    out.recent = given->recent, out.recent_size = given->recent_size, out.recent_count = given->recent_count;
  }
  return out;
}

LayerBatch batch_of(const tmx_layer_batch* given, const LayerOptions& options, bool with_target,
                    bool with_index) {
  require(given);
  require_size(given->size, sizeof(tmx_layer_batch), "tmx_layer_batch");
  if (given->rows > kMostRows)
    throw UserError(fmt::format("the batch has {} rows; at most {} are possible", given->rows, kMostRows));
  LayerBatch out;
  out.rows = given->rows;
  if (out.rows == 0) return out;
  require(given->x);
  out.x = given->x;
  out.x_stride = stride_of(given->x_stride, options.features, "x_stride");
  out.ignore_index = given->ignore_index;
  if (with_target) {
    require(given->target);
    out.target = given->target;
  }
  if (with_index) out.index = given->index;
  return out;
}

}  // namespace

extern "C" {

tmx_status tmx_layer_create(const tmx_layer_options* options, tmx_layer** out) {
  return call([&] {
    require(options, out);
    require_size(options->size, sizeof(tmx_layer_options), "tmx_layer_options");
    LayerOptions o;
    o.classes = options->classes, o.features = options->features, o.drawn = options->drawn;
    o.draw = draw_of(options->draw);
    o.rho = options->rho;
    o.threads = resolve_threads(options->threads);
    o.check_sizes();
    if (o.draw == LayerDraw::counts) {
      require(options->counts);
      o.counts.assign(options->counts, options->counts + o.classes);
    }
    *out = new tmx_layer{std::make_shared<Layer>(std::move(o))};
  });
}

void tmx_layer_free(tmx_layer* layer) {
  delete layer;
}

tmx_status tmx_layer_forward(tmx_layer* layer, const tmx_layer_arrays* arrays, const tmx_layer_batch* batch,
                             float* loss, tmx_pass** pass) {
  return call([&] {
    require(layer);
    const LayerOptions& options = layer->inside->options();
    const LayerArrays a = arrays_of(arrays, options, Use::forward);
    const LayerBatch b = batch_of(batch, options, true, true);
    if (b.rows > 0) require(loss);
    auto made = std::make_unique<tmx_pass>(tmx_pass{layer->inside, layer->inside->forward(a, b, loss)});
    if (pass != nullptr)
      *pass = made.release();
    else
      tmx_pass_free(made.release());
  });
}

tmx_status tmx_layer_backward(const tmx_layer_arrays* arrays, tmx_pass* pass, const float* gradient,
                              double step, float* dx, int64_t dx_stride) {
  return call([&] {
    require(pass);
    const LayerOptions& options = pass->layer->options();
    const LayerArrays a = arrays_of(arrays, options, Use::backward);
    if (pass->inside->rows() > 0) require(gradient);
    const std::ptrdiff_t stride = dx == nullptr ? 0 : stride_of(dx_stride, options.features, "dx_stride");
    pass->layer->backward(a, *pass->inside, gradient, step, dx, stride);
  });
}

void tmx_pass_free(tmx_pass* pass) {
  if (pass == nullptr) return;
  const std::shared_ptr<Layer> layer = pass->layer;
  try {
    layer->recycle(std::move(pass->inside));
  } catch (const std::bad_alloc&) {  // no memory to keep it: it is freed
  }
  delete pass;
}

tmx_status tmx_layer_nll(tmx_layer* layer, const tmx_layer_arrays* arrays, const tmx_layer_batch* batch,
                         double* loss) {
  return call([&] {
    require(layer);
    const LayerOptions& options = layer->inside->options();
    const LayerArrays a = arrays_of(arrays, options, Use::exact);
    const LayerBatch b = batch_of(batch, options, true, false);
    if (b.rows == 0) return;
    require(loss);
    layer->inside->nll(a, b, loss);
  });
}

tmx_status tmx_layer_top(tmx_layer* layer, const tmx_layer_arrays* arrays, const tmx_layer_batch* batch,
                         uint64_t top, int64_t* classes, double* log_probabilities) {
  return call([&] {
    require(layer);
    const LayerOptions& options = layer->inside->options();
    const LayerArrays a = arrays_of(arrays, options, Use::exact);
    const LayerBatch b = batch_of(batch, options, false, false);
    if (top < 1 || top > options.classes)
      throw UserError(fmt::format("top is {}; give a number from 1 to the {} classes of the layer", top,
                                  options.classes));
    if (b.rows == 0) return;
    require(classes, log_probabilities);
    layer->inside->top(a, b, top, classes, log_probabilities);
  });
}

}  // extern "C"
