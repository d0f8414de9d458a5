// Building an index: cells by k-means, all classes to their nearest centre, bytes.
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

constexpr std::size_t kRounds = 8;            // of k-means
constexpr std::size_t kSampleOfRegion = 256;  // classes in the sample, for each region
constexpr std::size_t kSampleOfCell = 64;     // and for each cell of a region
constexpr std::size_t kMostOfRegion = 16;     // times the classes in the sample of a mean region
constexpr std::size_t kMoves = 2;             // of all classes to their nearest cell
constexpr std::size_t kAtOnce = 2048;         // classes that meet centres at once
constexpr std::size_t kMostColumns = 512;     // vectors that are longer are sketched
constexpr std::size_t kSketch = 256;
constexpr float kLargest = 1e15F;  // squares and their sums stay in float32
// The work of other stages, where that of finding the cells of all classes is 1.
constexpr double kFindingShare = 1.5, kCodingShare = 0.3;

// A class as k-means sees it: [w_kf r_f, b_k], where r_f is the root mean square of feature f in the rows, so
// that distances are differences of scores. Many features are folded into few, each with a random place and
// sign, which keeps distances on average.
class Projection {
 public:
  Projection(std::size_t features, CsrView sample, std::uint64_t seed)
      : weight_(features, 1.0F), columns_(columns_of(features)) {
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
  static std::size_t columns_of(std::size_t features) {  // without b
    return features > kMostColumns ? kSketch : features;
  }
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
  // Of one thread.
  struct Scratch {
    std::vector<float> scores;
    DenseProduct product;
  };

  Centres() = default;
  Centres(std::size_t count, std::size_t columns)
      : count_(count), columns_(columns), at_(count * columns), half_(count) {}
  float* row(std::size_t c) { return at_.data() + c * columns_; }
  const float* row(std::size_t c) const { return at_.data() + c * columns_; }
  std::size_t size() const { return count_; }
  std::size_t columns() const { return columns_; }
  float half(std::size_t c) const { return half_[c]; }  // of its squared length
  // After the rows have changed.
  void settle() {
    for (std::size_t c = 0; c < count_; ++c) half_[c] = dot(row(c), row(c), columns_) / 2;
  }
  // Products of the rows of v, [count][columns], with all centres: [count][size()] in the scratch.
  void scores(const float* v, std::size_t count, Team& team, Scratch& scratch) const {
    scratch.scores.resize(count * count_);
    scratch.product.multiply({{v, count, columns_, columns_}, false},
                             {{at_.data(), count_, columns_, columns_}, true}, scratch.scores.data(), count_,
                             team);
  }
  // of[i]: the nearest centre of row i of v.
  void nearest(const float* v, std::size_t count, std::uint32_t* of, Team& team, Scratch& scratch) const {
    scores(v, count, team, scratch);
    for (std::size_t i = 0; i < count; ++i)
      of[i] = static_cast<std::uint32_t>(place_of_largest(&scratch.scores[i * count_], half_.data(), count_));
  }

 private:
  std::size_t count_ = 0, columns_ = 0;
  std::vector<float> at_, half_;
};

// The members of each cell, in ascending order: those of cell c from begin[c] to begin[c + 1].
struct Lists {
  Lists(std::span<const std::uint32_t> cell_of, std::size_t cells)
      : begin(cells + 1), members(cell_of.size()) {
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

// Centres to begin with: rows of v [n][columns], each drawn in proportion to its squared distance from the
// centres before it (k-means++). With centres drawn evenly, some groups of classes would share one for good.
void draw_centres(const float* v, std::size_t n, const CounterRandom& random, std::uint64_t which,
                  Centres& centres) {
  const std::size_t columns = centres.columns();
  std::vector<float> square(n), far(n, std::numeric_limits<float>::max());
  for (std::size_t i = 0; i < n; ++i) square[i] = dot(v + i * columns, v + i * columns, columns);
  std::size_t chosen = uniform_below(random.at(which << 32).first, n);
  for (std::size_t c = 0;; ++c) {
    std::copy_n(v + chosen * columns, columns, centres.row(c));
    if (c + 1 == centres.size()) return;
    double total = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const float product = dot(v + i * columns, centres.row(c), columns);
      far[i] = std::min(far[i], std::max(0.0F, square[i] - 2 * product + square[chosen]));
      total += static_cast<double>(far[i]);
    }
    const CounterRandom::Block bits = random.at((which << 32) + c + 1);
    double at = uniform_unit(bits.first) * total;
    chosen = uniform_below(bits.second, n);  // if all rows are centres
    for (std::size_t i = 0; i < n && total > 0; ++i) {
      at -= static_cast<double>(far[i]);
      if (far[i] > 0) chosen = i;
      if (at < 0) break;
    }
  }
}

// Lloyd's algorithm on rows v [n][columns].
void find_means(const float* v, std::size_t n, const CounterRandom& random, std::uint64_t which,
                std::vector<std::uint32_t>& cell_of, Centres& centres, Team& team) {
  const std::size_t cells = centres.size(), columns = centres.columns();
  draw_centres(v, n, random, which, centres);
  cell_of.resize(n);
  Centres::Scratch scratch;
  for (std::size_t round = 0; round < kRounds; ++round) {
    centres.settle();
    for (std::size_t i = 0; i < n; i += kAtOnce)
      centres.nearest(v + i * columns, std::min(kAtOnce, n - i), &cell_of[i], team, scratch);
    const Lists lists(cell_of, cells);
    std::vector<double> sum(columns);
    for (std::size_t c = 0; c < cells; ++c) {
      float* const centre = centres.row(c);
      const auto members = lists.of(c);
      if (members.empty()) {  // starts again elsewhere
        const std::uint64_t other = uniform_below(random.at((which << 32) + c, round + 1).first, n);
        std::copy_n(v + other * columns, columns, centre);
        continue;
      }
      std::fill(sum.begin(), sum.end(), 0.0);
      for (const std::uint32_t i : members)
        for (std::size_t f = 0; f < columns; ++f) sum[f] += static_cast<double>(v[i * columns + f]);
      for (std::size_t f = 0; f < columns; ++f)
        centre[f] = static_cast<float>(sum[f] / static_cast<double>(members.size()));
    }
  }
  centres.settle();
}

std::size_t cells_wanted(std::size_t classes, const IndexOptions& options) {
  return std::clamp<std::size_t>(options.cells > 0 ? options.cells : usual_cells(classes), 1, classes);
}

std::size_t regions_of(std::size_t cells) {
  return std::max<std::size_t>(1, static_cast<std::size_t>(std::sqrt(static_cast<double>(cells))));
}

// Classes in the sample of a region with so many cells. One region may have most classes, such as those that
// training hardly moved: k-means there would take as long as at one level.
std::size_t sample_of_region(std::size_t cells, std::size_t wanted, std::size_t regions) {
  return kSampleOfCell * std::min(cells, kMostOfRegion * (wanted / regions + 1));
}

// k-means at two levels, a few regions and in each region cells of its own, because one level would compare
// every class with every cell in every round. Then every class moves to the nearest of all cells.
class Builder {
 public:
  Builder(const ClassVectors& vectors, CsrView sample, const IndexOptions& options, const IndexWork& work)
      : vectors_(vectors),
        options_(options),
        work_(work),
        projection_(vectors.features(), sample, options.seed),
        wanted_(cells_wanted(vectors.classes(), options)),
        regions_(regions_of(wanted_)),
        progress_(work, static_cast<double>(vectors.classes()) * (kFindingShare + 1 + kCodingShare)),
        random_(options.seed, Stream::index, 1) {}

  ClassIndex build(const ClassList& classes) {
    find_regions();
    find_cells();
    if (work_.ended()) return {};
    move_classes();
    if (work_.ended()) return {};
    split();
    return code(classes.name_ranks());
  }

 private:
  std::size_t columns() const { return projection_.columns(); }

  void project(ClassId k, std::vector<float>& w, float* out) const {
    w.resize(vectors_.features());
    vectors_.read(k, w);
    projection_.project(w, vectors_.intercept(k), out);
  }

  void find_regions() {
    const std::size_t k = vectors_.classes(), n = std::min(k, regions_ * kSampleOfRegion);
    std::vector<ClassId> some(n);
    RandomWords words(random_, std::uint64_t{1} << 60);
    draw_distinct(words, k, some);
    std::sort(some.begin(), some.end());
    HugeVector<float> v(n * columns());
    parallel_for(parts(n), work_.threads, [&](std::size_t part) {
      std::vector<float> w;
      for (std::size_t i = part * kAtOnce; i < std::min(n, (part + 1) * kAtOnce); ++i)
        project(some[i], w, &v[i * columns()]);
    });
    Team team(work_.threads);
    std::vector<std::uint32_t> region_of;
    coarse_ = Centres(regions_, columns());
    find_means(v.data(), n, random_, 0, region_of, coarse_, team);
  }

  // Cells of each region, in proportion to its classes.
  void find_cells() {
    const std::size_t k = vectors_.classes();
    cell_of_.assign(k, 0);  // regions, at first
    each_part(kFindingShare / 2, [&](std::size_t first, std::size_t count, Team& alone) {
      std::vector<float> v(count * columns()), w;
      for (std::size_t i = 0; i < count; ++i) project(static_cast<ClassId>(first + i), w, &v[i * columns()]);
      Centres::Scratch scratch;
      coarse_.nearest(v.data(), count, &cell_of_[first], alone, scratch);
    });
    const Lists lists(cell_of_, regions_);
    fine_.resize(regions_);
    parallel_for(regions_, work_.threads, [&](std::size_t region) {
      const auto members = lists.of(region);
      if (members.empty() || work_.ended()) return;
      const std::size_t cells = std::max<std::size_t>(1, (members.size() * wanted_ + k / 2) / k);
      const std::size_t n =
          std::min(members.size(), std::max(cells, sample_of_region(cells, wanted_, regions_)));
      std::vector<float> v(n * columns()), w;
      for (std::size_t i = 0; i < n; ++i) project(members[i * members.size() / n], w, &v[i * columns()]);
      Team alone(1);
      std::vector<std::uint32_t> of;
      fine_[region] = Centres(std::min(cells, n), columns());
      find_means(v.data(), n, random_, region + 1, of, fine_[region], alone);
    });
    progress_.add(kFindingShare / 2 * static_cast<double>(k));
    first_cell_.assign(1, 0);
    for (const Centres& of_region : fine_) first_cell_.push_back(first_cell_.back() + of_region.size());
  }

  // Each class to the nearest of all cells, which regions have cut off from some, then the cells to the means
  // of their classes. By bytes: a fourth of the time, and a cell that is almost as near is as good.
  void move_classes() {
    cells_ = first_cell_.back();
    centres_ = Centres(cells_, columns());
    for (std::size_t r = 0; r < regions_; ++r)
      for (std::size_t c = 0; c < fine_[r].size(); ++c)
        std::copy_n(fine_[r].row(c), columns(), centres_.row(first_cell_[r] + c));
    fine_.clear();
    for (std::size_t move = 0; move < kMoves; ++move) {
      if (move > 0) find_means_of_cells();
      centres_.settle();
      ByteClasses bytes((cells_ + kLanes - 1) / kLanes, columns());
      for (std::size_t c = 0; c < cells_; ++c) bytes.set(c, {centres_.row(c), columns()}, -centres_.half(c));
      each_part(1.0 / kMoves, [&](std::size_t first, std::size_t count, Team& /*alone*/) {
        Csr v;
        v.index.resize(count * columns()), v.value.resize(count * columns());
        std::vector<float> w;
        for (std::size_t i = 0; i < count; ++i) {
          project(static_cast<ClassId>(first + i), w, &v.value[i * columns()]);
          for (std::size_t f = 0; f < columns(); ++f) v.index[i * columns() + f] = static_cast<FeatureId>(f);
          v.begin.push_back((i + 1) * columns());
        }
        best_places(bytes, ByteRows(v.view(), columns()), &cell_of_[first]);
      });
      if (work_.ended()) return;
    }
  }

  void find_means_of_cells() {
    const Lists lists(cell_of_, cells_);
    parallel_for(cells_, work_.threads, [&](std::size_t c) {
      const auto members = lists.of(c);
      if (members.empty()) return;
      std::vector<double> sum(columns(), 0.0);
      std::vector<float> w, v(columns());
      for (const ClassId k : members) {
        project(k, w, v.data());
        for (std::size_t f = 0; f < columns(); ++f) sum[f] += static_cast<double>(v[f]);
      }
      for (std::size_t f = 0; f < columns(); ++f)
        centres_.row(c)[f] = static_cast<float>(sum[f] / static_cast<double>(members.size()));
    });
  }

  static std::size_t parts(std::size_t n) { return (n + kAtOnce - 1) / kAtOnce; }

  // Calls work(first class, count, a team of one) for all classes, on all threads.
  template <class Work>
  void each_part(double share, const Work& do_part) {
    const std::size_t k = vectors_.classes();
    constexpr std::size_t kTurn = 16;  // parts between two looks at the clock
    for (std::size_t turn = 0; turn < parts(k) && !work_.ended(); turn += kTurn) {
      const std::size_t here = std::min(kTurn, parts(k) - turn);
      parallel_for(here, work_.threads, [&](std::size_t p) {
        Team alone(1);
        const std::size_t first = (turn + p) * kAtOnce;
        do_part(first, std::min(kAtOnce, k - first), alone);
      });
      progress_.add(share * static_cast<double>(std::min(k - turn * kAtOnce, here * kAtOnce)));
    }
  }

  // Cuts large cells, such as that of all classes that training never saw, by falling score along their
  // centre: rows that look into a part need not pay for the rest.
  void split() {
    const Lists lists(cell_of_, cells_);
    const std::size_t most = std::max<std::size_t>(2 * kLanes, 2 * vectors_.classes() / cells_);
    std::vector<std::vector<std::vector<ClassId>>> parts(cells_);
    parallel_for(cells_, work_.threads, [&](std::size_t c) {
      const auto members = lists.of(c);
      if (members.empty()) return;
      const float* const centre = centres_.row(c);
      if (members.size() <= most) {
        parts[c].emplace_back(members.begin(), members.end());
        return;
      }
      std::vector<std::pair<float, ClassId>> along;
      std::vector<float> w, v(columns());
      for (const ClassId k : members) {
        project(k, w, v.data());
        along.emplace_back(-dot(v.data(), centre, columns()), k);
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
      out.begin.push_back(out.begin.back() +
                          static_cast<std::uint32_t>((members.size() + kLanes - 1) / kLanes));
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
  double code_cell(std::size_t c, const std::vector<std::uint32_t>& rank, double all_weights,
                   ClassIndex& out) {
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
  Projection projection_;
  std::size_t wanted_, regions_, cells_ = 0;
  Progress progress_;
  CounterRandom random_;
  Centres coarse_, centres_;
  std::vector<Centres> fine_;                        // by region
  std::vector<std::size_t> first_cell_;              // of each region, and their number
  std::vector<std::uint32_t> cell_of_;               // by class
  std::vector<std::vector<ClassId>> cells_members_;  // by final cell
};

}  // namespace

std::size_t usual_cells(std::size_t classes) {
  const auto cells = static_cast<std::size_t>(16 * std::sqrt(static_cast<double>(classes)));
  return std::clamp<std::size_t>(cells, 1, std::max<std::size_t>(1, classes / (2 * kLanes)));
}

void IndexOptions::describe(OptionTable& table) {
  table.count_alias("cells", &cells, {0, 1e8}, "auto",
                    "Cells of similar classes. auto: 16 sqrt(K), but at most K/32.");
  table.count("seed", &seed, {}, "Random seed of the cells and of the normaliser's draws.");
}

std::uint64_t index_building_bytes(std::size_t classes, std::size_t features, const IndexOptions& options,
                                   std::size_t threads) {
  const std::uint64_t wanted = cells_wanted(classes, options), regions = regions_of(wanted);
  const std::uint64_t columns = Projection::columns_of(features) + 1, k = classes;
  const std::uint64_t cells = wanted + wanted / 2 + 1;  // split() adds up to half of them
  const auto coded = [&](std::uint64_t blocks) {
    const std::uint64_t groups = (features + kByteGroup - 1) / kByteGroup;
    return blocks * kLanes * (groups * kByteGroup + 2 * sizeof(float));
  };
  const std::uint64_t blocks = k / kLanes + cells;  // every cell starts one
  const std::uint64_t result =
      coded(blocks) + coded(cells / kLanes + 1) + (blocks * kLanes + 5 * cells) * sizeof(std::uint32_t);
  // Rows of one k-means over all regions, of one on every thread over the cells of a region, and the classes
  // that a thread projects at once.
  const std::uint64_t at_once = std::min<std::uint64_t>(kAtOnce, k);
  const std::uint64_t busy = std::min<std::uint64_t>(threads, (k + kAtOnce - 1) / kAtOnce);
  const std::uint64_t of_regions = std::min(k, regions * kSampleOfRegion);
  const std::uint64_t of_cells =
      std::min({k, (wanted + regions) * kSampleOfCell, threads * sample_of_region(wanted, wanted, regions)});
  const std::uint64_t rows = std::max({of_regions, of_cells, 2 * busy * at_once});
  // Scores: of classes with all regions on every thread, or with the cells of the regions at work.
  const std::uint64_t scores = at_once * std::max(busy * regions, wanted + regions);
  const std::uint64_t lists = 4 * k * sizeof(std::uint32_t) + cells * sizeof(std::vector<ClassId>);
  return result + ((rows + 2 * wanted) * columns + scores + features) * sizeof(float) + lists;
}

ClassIndex build_index(const ClassVectors& vectors, const ClassList& classes, CsrView sample,
                       const IndexOptions& options, const IndexWork& work) {
  return Builder(vectors, sample, options, work).build(classes);
}

}  // namespace truemax
