#include "model/use.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <optional>
#include <span>

#include "core/behind.hpp"
#include "core/checksum.hpp"
#include "core/error.hpp"
#include "core/row_encoder.hpp"
#include "data/formats.hpp"
#include "data/load.hpp"
#include "data/row_stream.hpp"
#include "ranks/ranks.hpp"
#include "ranks/together.hpp"
#include "weights/on_device.hpp"

namespace truemax {
namespace {
constexpr std::uint64_t kBatchRows = 4096, kBatchBytes = std::uint64_t{64} << 20;

// Ranks that see other rows would work on rows of different lengths, or end at different places.
void require_same_rows(const std::string& path, CsrView rows, std::uint64_t first) {
  if (ranks().alone()) return;
  const auto bytes = [](const auto* array, std::size_t count) {
    return std::span(reinterpret_cast<const char*>(array), count * sizeof *array);
  };
  RunningSum sum;
  sum.add(bytes(rows.begin.data(), rows.begin.size()));
  sum.add(bytes(rows.index, rows.nonzeros()));
  sum.add(bytes(rows.value, rows.nonzeros()));
  ranks().require_same("data", {{fmt::format("the checksum of the rows after row {}", first),
                                 checksum_text(sum.value()), path}});
}

}  // namespace

ReadOptions UseOptions::read_for(const Model& model) const {
  ReadOptions options = read;
  const std::string trained_on = model.data.value("format", "auto");
  for (const FormatInfo& info : formats())
    if (info.is_text && trained_on == info.name) options.expected = info.format;
  if (reads_words(model.space->encoder) && options.format == Format::automatic) options.format = Format::text;
  // Free memory is measured with the model loaded; a given limit covers model and data.
  options.memory = std::make_shared<MemoryBudget>(
      memory_limit == 0 ? 0 : memory_limit - std::min(memory_limit - 1, model.bytes()));
  // A model trained with --max-features drops values beyond it; any other refuses unknown features.
  if (model.space->features < model.space->file_features)
    options.max_features = model.preprocess.max_features;
  options.ngrams = model.preprocess.ngrams();
  return options;
}

device::Choice UseOptions::device_choice() const {
  const device::Choice choice = device::Choice::parse(device);
  if (ranks().alone()) return choice;
  if (choice.kind == device::Kind::cuda)
    throw UserError(fmt::format("--device {}: several ranks use the CPU; leave it out", device));
  return device::Choice::parse(device::kCpu);
}

std::vector<std::string> predict_stream(const Model& model, const std::string& path, const UseOptions& use,
                                        std::size_t top,
                                        const std::function<void(Predictions, std::size_t rows)>& sink) {
  const device::Choice choice = use.device_choice();
  const std::size_t most = std::min<std::size_t>(top, model.classes->size());
  if (choice.kind == device::Kind::cuda && most > device::kMostTop)
    throw UserError(
        fmt::format("--top {}: a GPU finds at most the best {} classes of a row; give less, or use "
                    "--device cpu",
                    top, device::kMostTop));
  const auto engine = most > device::kMostTop ? nullptr : device::open(choice);
  if (engine != nullptr) engine->set_weights(host_weights(model.weights), false);
  const Predictor predictor(model, engine != nullptr ? most : top, use.thread_count(), engine.get());
  return each_batch(model, path, use, rows_of_batch(kBatchRows, most),
                    [&](CsrView rows) { sink(predictor.predict(rows), rows.rows()); });
}

std::size_t rows_of_batch(std::size_t most, std::size_t results) {
  constexpr std::size_t kMostResults = std::size_t{1} << 21;
  return std::clamp<std::size_t>(kMostResults / std::max<std::size_t>(results, 1), 1, most);
}

std::vector<std::string> each_batch(const Model& model, const std::string& path, const UseOptions& use,
                                    std::uint64_t most_rows, const std::function<void(CsrView)>& use_rows) {
  std::vector<std::string> notes;
  StreamOptions options;
  options.threads = use.thread_count();
  options.labels_required = false;
  options.live = true;
  options.batch_bytes = kBatchBytes;
  std::optional<RowStream> stream;
  together(ranks(), [&] { stream.emplace(path, use.read_for(model), options, notes); });
  const RowPreparer preparer(model.preprocess, model.classes, model.space, use.drops());
  std::uint64_t done = 0, unknown_words = 0, unknown_ngrams = 0, unk_words = 0, unknown_features = 0;
  Ranks& all = ranks();
  const auto rows_after = [&](std::uint64_t before) {
    std::optional<Dataset> rows;
    const std::uint64_t batch = use.max_rows == 0 ? most_rows : std::min(most_rows, use.max_rows - before);
    if (batch == 0) return rows;
    together(all, [&] {
      RawRows raw = stream->next(batch);
      if (raw.size() > 0) rows = preparer.prediction_rows(std::move(raw));
    });
    require_same_rows(path, rows ? rows->rows.view() : CsrView{}, before);
    return rows;
  };
  // Rows of a file are read while those before them are used. A pipe may pause for long, and an error would
  // wait for it; ranks agree about each batch.
  const bool ahead = all.alone() && use.thread_count() > 1 && std::filesystem::is_regular_file(path);
  const auto start_next = [&] {
    const auto work = [&rows_after, done] { return rows_after(done); };
    std::future<std::optional<Dataset>> reading;
    if (ahead) reading = start_behind(work);
    return reading.valid() ? std::move(reading) : std::async(std::launch::deferred, work);
  };
  std::future<std::optional<Dataset>> next = start_next();
  while (const std::optional<Dataset> got = next.get()) {
    const Dataset& rows = *got;
    const std::uint64_t before = done;
    done += rows.rows.rows();
    unknown_words += rows.statistics.unknown_words;
    unknown_ngrams += rows.statistics.unknown_ngrams;
    unk_words += rows.statistics.unk_words;
    unknown_features += rows.statistics.unknown_features;
    next = start_next();
    try {
      use_rows(rows.rows.view());
    } catch (const RowBeyondFloat& error) {
      throw error.named(fmt::format("{}: row {}", path, before + error.row() + 1));
    }
  }
  if (unknown_words > 0)
    notes.push_back(fmt::format("{} {} not seen in training were left out", unknown_words,
                                model.space->of_triples() ? "names" : "words"));
  if (unknown_ngrams > 0)
    notes.push_back(fmt::format("{} n-grams not seen in training were left out", unknown_ngrams));
  if (unk_words > 0)
    notes.push_back(fmt::format("{} words not seen in training were read as <unk>", unk_words));
  if (unknown_features > 0)
    notes.push_back(
        fmt::format("{} values of features the model does not have were left out", unknown_features));
  return notes;
}

}  // namespace truemax
