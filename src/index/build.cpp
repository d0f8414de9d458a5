// Building an index: k-means on a sample of the classes, all classes to their nearest centre, bytes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/parallel.hpp"
#include "core/random.hpp"
#include "core/team.hpp"
#include "index/class_index.hpp"
#include "weights/dense.hpp"

namespace truemax {
namespace {

constexpr std::size_t kRounds = 8;           // of k-means
constexpr std::size_t kSampleOfCell = 40;    // classes in the sample, for each cell
constexpr std::size_t kAtOnce = 2048;        // classes that meet all centres at once
constexpr std::size_t kMostColumns = 512;    // vectors that are longer are sketched
constexpr std::size_t kSketch = 256;
constexpr float kLargest = 1e15F;            // squares and their sums stay in float32
// Work of a class beside that of finding its centre.
constexpr double kCodingShare = 0.25;

// A class as k-means sees it: [w_kf r_f, b_k], where r_f is the root mean square of feature f in the rows, so
// that distances are differences of scores. Many features are folded into few, each with a random place and
// sign, which keeps distances on average.
class Projection {
 public:
  Projection(std::size_t features, CsrView sample, std::uint64_t seed)
      : weight_(features, 1.0F), columns_(features > kMostColumns ? kSketch : features) {
    if (sample.rows() > 0) weigh(sample);
    if (features <= kMostColumns) return;
    const CounterRandom random(seed, Stream::index, 0);
    place_.resize(features);
    for (std::size_t f = 0; f < features; ++f) {
      const CounterRandom::Block bits = random.at(f);
      place_[f] = static_cast<std::uint32_t>(uniform_below(bits.first, kSketch));
      if ((bits.second & 1) != 0) weight_[f] = -weight_[f];
    }
  }
  std::size_t columns() const { return columns_ + 1; }
  double weight(std::size_t f) const { return static_cast<double>(weight_[f]); }

  void project(std::span<const float> w, float b, float* out) const {
    const auto bounded = [](float v) { return std::clamp(v, -kLargest, kLargest); };
    if (place_.empty()) {
      for (std::size_t f = 0; f < w.size(); ++f) out[f] = bounded(w[f] * weight_[f]);
    } else {
      std::fill(out, out + columns_, 0.0F);
      for (std::size_t f = 0; f < w.size(); ++f) out[place_[f]] += bounded(w[f] * weight_[f]);
      for (std::size_t c = 0; c < columns_; ++c) out[c] = bounded(out[c]);
    }
    out[columns_] = bounded(b);
  }

 private:
  void weigh(CsrView sample) {
    std::vector<double> square(weight_.size(), 0.0);
    double total = 0;
    for (std::size_t r = 0; r < sample.rows(); ++r) {
      const RowView x = sample.row(r);
      for (std::size_t j = 0; j < x.index.size(); ++j) {
        const double v = static_cast<double>(x.value[j]);
        square[x.index[j]] += v * v;
        total += v * v;
      }
    }
    if (!(total > 0)) return;
    // One more row in which all features are alike, for those that the sample lacks.
    const double rows = static_cast<double>(sample.rows());
    const double alike = total / rows / static_cast<double>(weight_.size());
    for (std::size_t f = 0; f < weight_.size(); ++f)
      weight_[f] = static_cast<float>(std::min(std::sqrt((square[f] + alike) / (rows + 1)), 1e15));
  }

  std::vector<float> weight_;         // with the sign of a sketch
  std::vector<std::uint32_t> place_;  // of each feature in a sketch
  std::size_t columns_;
};

class Progress {
 public:
  Progress(const IndexWork& work, double all) : work_(work), all_(all) {}
  void add(double done) {
    done_ += done;
    if (work_.watch) work_.watch(std::min(1.0, done_ / all_));
  }

 private:
  const IndexWork& work_;
  double all_, done_ = 0;
};

class Centres {
 public:
  Centres(std::size_t count, std::size_t columns) : count_(count), columns_(columns), at_(count * columns), half_(count) {}
  float* row(std::size_t c) { return at_.data() + c * columns_; }
  const float* row(std::size_t c) const { return at_.data() + c * columns_; }
  std::size_t size() const { return count_; }
  // After the rows have changed.
  void settle() {
    for (std::size_t c = 0; c < count_; ++c) half_[c] = dot(row(c), row(c), columns_) / 2;
  }
  // of[i]: the nearest centre of row i of v, [count][columns].
  void nearest(const float* v, std::size_t count, std::uint32_t* of, Team& team) {
    scores_.resize(count * count_);
    product_.multiply({{v, count, columns_, columns_}, false}, {{at_.data(), count_, columns_, columns_}, true},
                      scores_.data(), count_, team);
    team.share_chunks(count, 64, [&](std::size_t /*member*/, std::size_t i) {
      of[i] = static_cast<std::uint32_t>(place_of_largest(&scores_[i * count_], half_.data(), count_));
    });
  }

 private:
  std::size_t count_, columns_;
  std::vector<float> at_, half_;  // half of the squared length
  std::vector<float> scores_;
  DenseProduct product_;
};

// The members of each cell, in ascending order: those of cell c from begin[c] to begin[c + 1].
struct Lists {
  Lists(std::span<const std::uint32_t> cell_of, std::size_t cells) : begin(cells + 1), members(cell_of.size()) {
    for (const std::uint32_t c : cell_of) ++begin[c + 1];
    std::partial_sum(begin.begin(), begin.end(), begin.begin());
    std::vector<std::uint32_t> next(begin.begin(), begin.end() - 1);
    for (std::uint32_t i = 0; i < cell_of.size(); ++i) members[next[cell_of[i]]++] = i;
  }
  std::span<const std::uint32_t> of(std::size_t c) const {
    return std::span(members).subspan(begin[c], begin[c + 1] - begin[c]);
  }
  std::vector<std::uint32_t> begin, members;
};

class Builder {
 public:
  Builder(const ClassVectors& vectors, CsrView sample, const IndexOptions& options, const IndexWork& work)
      : vectors_(vectors),
        options_(options),
        work_(work),
        team_(work.threads),
        projection_(vectors.features(), sample, options.seed),
        cells_(std::clamp<std::size_t>(options.cells > 0 ? options.cells : usual_cells(vectors.classes()), 1,
                                       vectors.classes())),
        sampled_(std::min(vectors.classes(), cells_ * kSampleOfCell)),
        progress_(work, static_cast<double>(kRounds * sampled_) +
                            static_cast<double>(vectors.classes()) * (1 + kCodingShare)),
        centres_(cells_, projection_.columns()) {}

  ClassIndex build(const ClassList& classes) {
    if (cells_ > 1) find_centres();
    assign();
    if (work_.ended()) return {};
    split();
    return code(classes.name_ranks());
  }

 private:
  void find_centres() {
    const std::size_t columns = projection_.columns();
    const CounterRandom random(options_.seed, Stream::index, 1);
    std::vector<ClassId> some(sampled_);
    RandomWords words(random, 0);
    draw_distinct(words, vectors_.classes(), some);
    std::sort(some.begin(), some.end());
    HugeVector<float> v(sampled_ * columns);
    project(some, v.data());
    std::vector<std::uint32_t> first(cells_);
    RandomWords choice(random, std::uint64_t{1} << 40);
    draw_distinct(choice, sampled_, first);
    for (std::size_t c = 0; c < cells_; ++c) std::copy_n(&v[first[c] * columns], columns, centres_.row(c));
    std::vector<std::uint32_t> cell_of(sampled_);
    for (std::size_t round = 0; round < kRounds; ++round) {
      centres_.settle();
      for (std::size_t i = 0; i < sampled_; i += kAtOnce) {
        if (work_.ended()) return;
        const std::size_t count = std::min(kAtOnce, sampled_ - i);
        centres_.nearest(&v[i * columns], count, &cell_of[i], team_);
        progress_.add(static_cast<double>(count));
      }
      const Lists lists(cell_of, cells_);
      team_.share(cells_, [&](std::size_t /*member*/, std::size_t c) {
        const auto members = lists.of(c);
        float* const centre = centres_.row(c);
        if (members.empty()) {  // starts again elsewhere
          const std::uint64_t other = uniform_below(random.at(c, round + 1).first, sampled_);
          std::copy_n(&v[other * columns], columns, centre);
          return;
        }
        std::vector<double> sum(columns, 0.0);
        for (const std::uint32_t i : members)
          for (std::size_t f = 0; f < columns; ++f) sum[f] += static_cast<double>(v[i * columns + f]);
        for (std::size_t f = 0; f < columns; ++f)
          centre[f] = static_cast<float>(sum[f] / static_cast<double>(members.size()));
      });
    }
    centres_.settle();
  }

  // [classes][columns]
  void project(std::span<const ClassId> classes, float* out) {
    const std::size_t columns = projection_.columns();
    scratch_.resize(team_.size());
    team_.share_chunks(classes.size(), 64, [&](std::size_t member, std::size_t i) {
      scratch_[member].resize(vectors_.features());
      vectors_.read(classes[i], scratch_[member]);
      projection_.project(scratch_[member], vectors_.intercept(classes[i]), out + i * columns);
    });
  }

  void assign() {
    const std::size_t k = vectors_.classes();
    cell_of_.assign(k, 0);
    std::vector<float> v(kAtOnce * projection_.columns());
    std::vector<ClassId> some;
    for (std::size_t first = 0; first < k && !work_.ended(); first += kAtOnce) {
      const std::size_t count = std::min(kAtOnce, k - first);
      if (cells_ > 1) {
        some.resize(count);
        std::iota(some.begin(), some.end(), static_cast<ClassId>(first));
        project(some, v.data());
        centres_.nearest(v.data(), count, &cell_of_[first], team_);
      }
      progress_.add(static_cast<double>(count));
    }
  }

  // Cuts large cells, such as that of all classes that training never saw, by falling score along their
  // centre: rows that look into a part need not pay for the rest.
  void split() {
    const Lists lists(cell_of_, cells_);
    const std::size_t most = std::max<std::size_t>(kLanes, 2 * vectors_.classes() / cells_);
    std::vector<std::vector<std::vector<ClassId>>> parts(cells_);
    const std::size_t columns = projection_.columns();
    parallel_for(cells_, work_.threads, [&](std::size_t c) {
      const auto members = lists.of(c);
      if (members.empty()) return;
      if (members.size() <= most) {
        parts[c].emplace_back(members.begin(), members.end());
        return;
      }
      std::vector<std::pair<float, ClassId>> along;
      std::vector<float> w(vectors_.features()), v(columns);
      for (const ClassId k : members) {
        vectors_.read(k, w);
        projection_.project(w, vectors_.intercept(k), v.data());
        along.emplace_back(cells_ > 1 ? -dot(v.data(), centres_.row(c), columns) : -v.back(), k);
      }
      std::sort(along.begin(), along.end());
      const std::size_t pieces = (members.size() + most - 1) / most;
      for (std::size_t p = 0; p < pieces; ++p) {
        auto& part = parts[c].emplace_back();
        for (std::size_t i = p * members.size() / pieces; i < (p + 1) * members.size() / pieces; ++i)
          part.push_back(along[i].second);
        std::sort(part.begin(), part.end());
      }
    });
    for (auto& of_cell : parts)
      for (auto& part : of_cell) cells_members_.push_back(std::move(part));
  }

  ClassIndex code(const std::vector<std::uint32_t>& rank) {
    ClassIndex out;
    out.seed = options_.seed;
    out.begin.push_back(0);
    for (const auto& members : cells_members_) {
      out.members.push_back(static_cast<std::uint32_t>(members.size()));
      out.begin.push_back(out.begin.back() + static_cast<std::uint32_t>((members.size() + kLanes - 1) / kLanes));
    }
    const std::size_t cells = out.cells(), features = vectors_.features();
    out.classes = ByteClasses(out.begin.back(), features);
    out.rank.assign(out.begin.back() * kLanes, ClassIndex::kNobody);
    out.centres = ByteClasses((cells + kLanes - 1) / kLanes, features);
    out.of_x.resize(cells), out.of_b.resize(cells);
    std::vector<double> largest(cells);
    constexpr std::size_t kCells = 16;
    double all_weights = 0;
    for (std::size_t f = 0; f < features; ++f) all_weights += projection_.weight(f) * projection_.weight(f);
    for (std::size_t first = 0; first < cells && !work_.ended(); first += 64 * kCells) {
      std::size_t done = 0;
      const std::size_t last = std::min(cells, first + 64 * kCells);
      for (std::size_t c = first; c < last; ++c) done += out.members[c];
      parallel_for((last - first + kCells - 1) / kCells, work_.threads, [&](std::size_t chunk) {
        for (std::size_t c = first + chunk * kCells; c < std::min(last, first + (chunk + 1) * kCells); ++c)
          largest[c] = code_cell(c, rank, all_weights, out);
      });
      progress_.add(kCodingShare * static_cast<double>(done));
    }
    if (work_.ended()) return {};
    out.largest_square = *std::max_element(largest.begin(), largest.end());
    out.mark = vectors_.mark(work_.threads);
    return out;
  }

  // Returns the largest |w_k|^2.
  double code_cell(std::size_t c, const std::vector<std::uint32_t>& rank, double all_weights, ClassIndex& out) {
    const std::vector<ClassId>& members = cells_members_[c];
    const std::size_t features = vectors_.features();
    const double n = static_cast<double>(members.size());
    std::vector<float> w(features), centre(features);
    std::vector<double> sum(features, 0.0), squares(features, 0.0);
    double sum_b = 0, squares_b = 0, largest = 0;
    for (std::size_t i = 0; i < members.size(); ++i) {
      vectors_.read(members[i], w);
      const float b = vectors_.intercept(members[i]);
      const std::size_t place = std::size_t{out.begin[c]} * kLanes + i;
      out.classes.set(place, w, b);
      out.rank[place] = rank[members[i]];
      double square = 0;
      for (std::size_t f = 0; f < features; ++f) {
        const double v = static_cast<double>(w[f]);
        sum[f] += v, squares[f] += v * v, square += v * v;
      }
      largest = std::max(largest, square);
      sum_b += static_cast<double>(b), squares_b += static_cast<double>(b) * static_cast<double>(b);
    }
    double spread = 0;
    for (std::size_t f = 0; f < features; ++f) {
      const double mean = sum[f] / n, r = projection_.weight(f);
      centre[f] = static_cast<float>(mean);
      spread += r * r * std::max(0.0, squares[f] / n - mean * mean);
    }
    const auto bounded = [](double v) {
      return static_cast<float>(std::min(v, static_cast<double>(std::numeric_limits<float>::max())));
    };
    const double mean_b = sum_b / n;
    out.of_x[c] = bounded(features == 0 || all_weights == 0 ? 0.0 : spread / all_weights);
    out.of_b[c] = bounded(std::max(0.0, squares_b / n - mean_b * mean_b));
    out.centres.set(c, centre, static_cast<float>(mean_b));
    return largest;
  }

  const ClassVectors& vectors_;
  const IndexOptions& options_;
  const IndexWork& work_;
  Team team_;
  Projection projection_;
  std::size_t cells_, sampled_;
  Progress progress_;
  Centres centres_;
  std::vector<std::uint32_t> cell_of_;                // by class
  std::vector<std::vector<ClassId>> cells_members_;  // by final cell
  std::vector<std::vector<float>> scratch_;           // by member of the team
};

}  // namespace

std::size_t usual_cells(std::size_t classes) {
  const auto cells = static_cast<std::size_t>(4 * std::sqrt(static_cast<double>(classes)));
  return std::clamp<std::size_t>(cells, 1, std::max<std::size_t>(1, classes / kLanes));
}

void IndexOptions::describe(OptionTable& table) {
  table.count_alias("cells", &cells, {0, 1e8}, "auto",
                    "Cells of similar classes. auto: 4 sqrt(K), of at least 16 classes each.");
  table.count("seed", &seed, {}, "Random seed of the cells and of the normaliser's draws.");
}

ClassIndex build_index(const ClassVectors& vectors, const ClassList& classes, CsrView sample,
                       const IndexOptions& options, const IndexWork& work) {
  return Builder(vectors, sample, options, work).build(classes);
}

}  // namespace truemax
