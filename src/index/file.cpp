// The file of an index: "TMXINDEX", the length and the checksum of a JSON header, the header, and the arrays
// one after the other. docs/topk-index.md describes it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "index/class_index.hpp"
#include "truemax/version.hpp"

namespace truemax {
namespace {

constexpr std::string_view kMagic = "TMXINDEX";
constexpr int kVersion1 = 1;
constexpr std::uint64_t kMostHeader = std::uint64_t{1} << 20;

// Calls use(pointer, bytes) for all arrays in their order.
template <class Index, class Use>
void each_array(Index& index, const Use& use) {
  const auto one = [&](auto& values) { use(values.data(), values.size() * sizeof(values[0])); };
  one(index.classes.codes()), one(index.classes.scales()), one(index.classes.biases()), one(index.rank);
  one(index.centres.codes()), one(index.centres.scales()), one(index.centres.biases());
  one(index.begin), one(index.members), one(index.of_x), one(index.of_b);
}

constexpr std::size_t kPiece = std::size_t{16} << 20;

std::uint64_t checksum_of(const ClassIndex& index) {
  std::uint64_t sum = 0;
  each_array(index, [&](const void* data, std::size_t bytes) {
    for (std::size_t at = 0; at < bytes; at += kPiece)
      sum = xxh64({static_cast<const char*>(data) + at, std::min(kPiece, bytes - at)}, sum);
  });
  return sum;
}

nlohmann::ordered_json header_of(const ClassIndex& index) {
  return {{"format_version", kVersion1},
          {"truemax_version", kVersion},
          {"model",
           {{"classes", index.mark.classes},
            {"features", index.mark.features},
            {"weight", checksum_text(index.mark.weight)},
            {"intercept", checksum_text(index.mark.intercept)}}},
          {"cells", index.cells()},
          {"blocks", index.classes.blocks()},
          {"seed", index.seed},
          {"largest_square", index.largest_square},
          {"effort",
           {{"probes", index.effort.probes},
            {"top", index.effort.top},
            {"rows", index.effort.rows},
            {"target", index.effort.target},
            {"recall", index.effort.recall},
            {"error", index.effort.error}}},
          {"checksum", checksum_text(checksum_of(index))}};
}

class Reader {
 public:
  Reader(const std::string& path, const std::string& model) : path_(path), model_(model) {
    std::error_code error;
    if (!std::filesystem::exists(path, error))
      throw file_error(path, 0, "no such file", "make an index: truemax index " + model);
    if (!std::filesystem::is_regular_file(path, error)) throw no_index();
    size_ = std::filesystem::file_size(path, error);
    in_.open(path, std::ios::binary);
    if (error || !in_) throw file_error(path, 0, "it cannot be read", "check its permissions");
  }

  nlohmann::json header() {
    std::array<char, 8> magic{};
    std::uint64_t length = 0, sum = 0;
    in_.read(magic.data(), magic.size());
    if (!in_ || std::string_view(magic.data(), magic.size()) != kMagic) throw no_index();
    in_.read(reinterpret_cast<char*>(&length), sizeof length);
    in_.read(reinterpret_cast<char*>(&sum), sizeof sum);
    if (!in_ || length > kMostHeader || length > size_) throw damaged("its header is cut off");
    std::string text(length, '\0');
    in_.read(text.data(), static_cast<std::streamsize>(length));
    if (!in_) throw damaged("its header is cut off");
    if (xxh64(text) != sum) throw damaged("its header has a wrong checksum");
    left_ = size_ - magic.size() - sizeof length - sizeof sum - length;
    nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
    if (!json.is_object()) throw damaged("its header is not JSON");
    return json;
  }

  void arrays(ClassIndex& index) {
    std::uint64_t needed = 0;
    each_array(index, [&](const void* /*data*/, std::size_t bytes) { needed += bytes; });
    if (needed != left_)
      throw damaged(fmt::format("it has {} bytes of data where its header says {}", left_, needed));
    each_array(index, [&](void* data, std::size_t bytes) {
      in_.read(static_cast<char*>(data), static_cast<std::streamsize>(bytes));
    });
    if (!in_) throw damaged("it is cut off");
  }
  std::uint64_t left() const { return left_; }

  UserError damaged(const std::string& what) const {
    return file_error(path_, 0, "the index is damaged: " + what, advice());
  }
  UserError no_index() const { return file_error(path_, 0, "this is not an index of classes", advice()); }
  UserError other_weights() const {
    return file_error(path_, 0, fmt::format("this index was made of other weights than those of {}", model_),
                      advice());
  }
  UserError other_version(const std::string& found) const {
    return file_error(path_, 0, fmt::format("its format is version {}; this program reads version 1", found),
                      advice());
  }

 private:
  std::string advice() const { return "make it again: truemax index " + model_; }

  std::string path_, model_;
  std::ifstream in_;
  std::uint64_t size_ = 0, left_ = 0;
};

// What memory safety and finite results need; checksums do not protect against deliberate changes.
bool is_sound(const ClassIndex& index) {
  const std::size_t cells = index.cells(), k = index.mark.classes;
  if (index.begin.front() != 0 || index.begin.back() != index.classes.blocks()) return false;
  std::vector<bool> seen(k);
  std::size_t classes = 0;
  for (std::size_t c = 0; c < cells; ++c) {
    if (index.begin[c + 1] <= index.begin[c] || index.begin[c + 1] > index.classes.blocks()) return false;
    const std::size_t first = std::size_t{index.begin[c]} * kLanes,
                      end = std::size_t{index.begin[c + 1]} * kLanes;
    if (index.members[c] == 0 || index.members[c] > end - first || end - first - index.members[c] >= kLanes)
      return false;
    for (std::size_t place = first; place < end; ++place) {
      const bool real = place < first + index.members[c];
      if (real != (index.rank[place] != ClassIndex::kNobody)) return false;
      if (!real) {
        if (index.classes.biases()[place] != kPaddingScore) return false;
        continue;
      }
      if (index.rank[place] >= k || seen[index.rank[place]]) return false;
      seen[index.rank[place]] = true;
      ++classes;
      if (!std::isfinite(index.classes.biases()[place])) return false;
    }
  }
  // No byte is more than 127 steps, no class longer than the longest, and no difference of two more than
  // twice the larger one: scores from bytes are then as finite as true ones.
  constexpr double kRounded = 1.001, kSmall = 127 * static_cast<double>(std::numeric_limits<float>::min());
  double bias = 0;
  for (const float b : index.classes.biases())
    if (b != kPaddingScore) bias = std::max(bias, std::abs(static_cast<double>(b)));
  const auto within = [](const std::vector<float>& values, double most) {
    return std::all_of(values.begin(), values.end(),
                       [&](float v) { return v >= 0 && static_cast<double>(v) <= kRounded * most; });
  };
  if (!(index.largest_square >= 0 && std::isfinite(index.largest_square))) return false;
  const double step = (std::sqrt(index.largest_square) + kSmall) / 127;
  for (std::size_t c = 0; c < index.centres.biases().size(); ++c)
    if (c < cells ? !std::isfinite(index.centres.biases()[c]) : index.centres.biases()[c] != kPaddingScore)
      return false;
  return classes == k && within(index.of_x, 4 * index.largest_square + kSmall) &&
         within(index.of_b, 4 * bias * bias + kSmall) && within(index.classes.scales(), step) &&
         within(index.centres.scales(), step);
}

}  // namespace

bool is_index_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::array<char, 8> magic{};
  in.read(magic.data(), magic.size());
  return in && std::string_view(magic.data(), magic.size()) == kMagic;
}

void save_index(const ClassIndex& index, const std::string& path) {
  const std::string header = header_of(index).dump();
  const std::uint64_t length = header.size(), sum = xxh64(header);
  AtomicFile file(path);
  std::uint64_t at = 0;
  const auto put = [&](const void* data, std::size_t bytes) {
    file.write_at(at, {static_cast<const char*>(data), bytes});
    at += bytes;
  };
  std::uint64_t bytes = kMagic.size() + sizeof length + sizeof sum + header.size();
  each_array(index, [&](const void* /*data*/, std::size_t more) { bytes += more; });
  file.reserve(bytes);
  put(kMagic.data(), kMagic.size());
  put(&length, sizeof length);
  put(&sum, sizeof sum);
  put(header.data(), header.size());
  each_array(index, put);
  file.commit();
}

ClassIndex load_index(const std::string& path, const WeightsMark& mark, const std::string& model) {
  Reader reader(path, model);
  const nlohmann::json header = reader.header();
  ClassIndex index;
  std::uint64_t cells = 0, blocks = 0, checksum = 0;
  try {
    if (header.at("format_version") != kVersion1)
      throw reader.other_version(header.at("format_version").dump());
    const auto& of = header.at("model");
    const auto sum = [&](const nlohmann::json& text) {
      const auto parsed = parse_checksum(text.get<std::string>());
      if (!parsed) throw reader.damaged("a checksum in its header is no number");
      return *parsed;
    };
    index.mark = {of.at("classes").get<std::uint64_t>(), of.at("features").get<std::uint64_t>(),
                  sum(of.at("weight")), sum(of.at("intercept"))};
    cells = header.at("cells").get<std::uint64_t>(), blocks = header.at("blocks").get<std::uint64_t>();
    index.seed = header.at("seed").get<std::uint64_t>();
    index.largest_square = header.at("largest_square").get<double>();
    const auto& effort = header.at("effort");
    index.effort = {effort.at("probes").get<std::uint64_t>(), effort.at("top").get<std::uint64_t>(),
                    effort.at("rows").get<std::uint64_t>(),   effort.at("target").get<double>(),
                    effort.at("recall").get<double>(),        effort.at("error").get<double>()};
    checksum = sum(header.at("checksum"));
  } catch (const nlohmann::json::exception&) {
    throw reader.damaged("its header lacks something");
  }
  if (index.mark != mark) throw reader.other_weights();
  if (cells == 0 || cells > mark.classes || blocks > reader.left() || blocks < cells ||
      blocks * kLanes > mark.classes + cells * kLanes)
    throw reader.damaged("its header has wrong sizes");
  index.classes = ByteClasses(blocks, mark.features);
  index.rank.resize(blocks * kLanes);
  index.centres = ByteClasses((cells + kLanes - 1) / kLanes, mark.features);
  index.begin.resize(cells + 1);
  index.members.resize(cells), index.of_x.resize(cells), index.of_b.resize(cells);
  reader.arrays(index);
  if (checksum_of(index) != checksum) throw reader.damaged("its data have a wrong checksum");
  if (!is_sound(index)) throw reader.damaged("its cells contradict each other");
  if (index.effort.probes > cells) throw reader.damaged("its header has wrong sizes");
  return index;
}

}  // namespace truemax
