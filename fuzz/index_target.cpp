// The loader of an index of classes. Whatever it accepts finds classes that exist, with finite scores and
// probabilities of at most 1. Checksums are made right first, so that a change reaches the code behind them.
#include <cmath>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "core/checksum.hpp"
#include "index/class_index.hpp"
#include "index/search.hpp"
#include "target.hpp"
#include "targets.hpp"

namespace truemax::fuzz {
namespace {

constexpr std::size_t kClasses = 40, kFeatures = 6, kStart = 24;  // magic, length and checksum of the header

struct SmallModel {
  SmallModel()
      : weights(kClasses, kFeatures, true), classes([] {
          std::vector<std::string> names;
          for (std::size_t k = 0; k < kClasses; ++k) names.push_back(std::to_string(k));
          return ClassList(names, std::vector<double>(kClasses, 1.0));
        }()) {
    std::vector<float> w(kFeatures);
    for (ClassId k = 0; k < kClasses; ++k) {
      for (std::size_t f = 0; f < kFeatures; ++f) w[f] = std::sin(static_cast<float>(k / 8 * 7 + f + k));
      weights.set_class(k, w);
      weights.intercept()[k] = 0.1F * static_cast<float>(k % 3);
      rows.index.insert(rows.index.end(), {0, 2, 5});
      rows.value.insert(rows.value.end(), {w[0], w[2], w[5]});
      rows.begin.push_back(rows.index.size());
    }
    vectors = vectors_in_memory(weights, classes);
  }
  Weights weights;
  ClassList classes;
  Csr rows;
  std::unique_ptr<ClassVectors> vectors;
};

const SmallModel& small_model() {
  static const SmallModel model;
  return model;
}

// Bytes of the arrays in their order, as the header has their sizes; empty if it has none.
std::vector<std::size_t> sizes_of(const nlohmann::json& header) {
  const auto number = [&](const char* name) -> std::size_t {
    const auto found = header.find(name);
    return found != header.end() && found->is_number_unsigned() && *found < 4096 ? found->get<std::size_t>()
                                                                                 : 0;
  };
  const std::size_t cells = number("cells"), blocks = number("blocks"),
                    centres = (cells + kLanes - 1) / kLanes;
  if (cells == 0 || blocks == 0) return {};
  const std::size_t line = kLanes * sizeof(float), codes = (kFeatures + 3) / 4 * 4 * kLanes;
  const std::size_t each = sizeof(std::uint32_t);
  return {blocks * codes, blocks * line,      blocks * line, blocks * line, centres * codes, centres * line,
          centres * line, (cells + 1) * each, cells * each,  cells * each,  cells * each};
}

std::string with_right_checksums(std::string_view bytes) {
  std::string out(bytes);
  std::uint64_t length = 0;
  if (bytes.size() < kStart) return out;
  std::memcpy(&length, bytes.data() + 8, sizeof length);
  if (length > bytes.size() - kStart) return out;
  std::string text(bytes.substr(kStart, length));
  const std::string_view data = bytes.substr(kStart + length);
  nlohmann::json header = nlohmann::json::parse(text, nullptr, false);
  if (header.is_object()) {
    std::size_t all = 0;
    const std::vector<std::size_t> sizes = sizes_of(header);
    for (const std::size_t size : sizes) all += size;
    if (all == data.size() && all > 0) {
      std::uint64_t sum = 0;
      std::size_t at = 0;
      for (const std::size_t size : sizes) sum = xxh64(data.substr(at, size), sum), at += size;
      header["checksum"] = checksum_text(sum);
      text = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    }
  }
  const std::uint64_t size = text.size(), sum = xxh64(text);
  out.assign(bytes.substr(0, 8));
  out.append(reinterpret_cast<const char*>(&size), sizeof size);
  out.append(reinterpret_cast<const char*>(&sum), sizeof sum);
  return out.append(text).append(data);
}

void require_search(const ClassIndex& index) {
  const SmallModel& model = small_model();
  const IndexSearch search(index, *model.vectors, model.classes);
  for (const std::size_t probes : {std::size_t{1}, index.cells()}) {
    const IndexResult found = search.find(model.rows.view(), {.top = 3, .probes = probes, .threads = 1});
    for (std::size_t r = 0; r < model.rows.rows(); ++r)
      for (std::size_t t = 0; t < found.pass.top; ++t) {
        const std::size_t at = r * found.pass.top + t;
        require(found.pass.best[at] < kClasses, "an index finds classes of the model");
        require(std::isfinite(found.pass.best_score[at]), "scores are finite");
        const double p = found.pass.probability(r, found.pass.best_score[at]);
        require(p >= 0 && p <= 1, "a probability is at most 1");
      }
  }
}

}  // namespace

bool read_index(std::string_view bytes) {
  const std::string whole = with_right_checksums(bytes);
  const MemoryFile file(whole);
  return accepts(file.path(),
                 [&] { require_search(load_index(file.path(), small_model().vectors->mark(1), "model")); });
}

std::vector<std::string> good_indexes() {
  const SmallModel& model = small_model();
  std::vector<std::string> all;
  for (const std::size_t cells : {1UL, 5UL, 40UL}) {
    const std::string path = scratch_folder() + "/index";
    save_index(build_index(*model.vectors, model.classes, {}, {.cells = cells, .seed = 1}, {.threads = 1}),
               path);
    all.push_back(file_bytes(path));
  }
  return all;
}

}  // namespace truemax::fuzz
