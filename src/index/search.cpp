#include "index/search.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/parallel.hpp"
#include "core/random.hpp"
#include "weights/largest.hpp"

namespace truemax {
namespace {

constexpr std::size_t kDraws = 16;        // of a row, for the normaliser
constexpr std::size_t kSpare = 16;        // classes kept beyond the best: bytes may order them wrongly
constexpr double kSpareDeviations = 4;    // a difference of two scores from bytes, in deviations of one
constexpr double kInterval = 1.96;        // 95%
constexpr std::size_t kChunkRows = 8192;  // rows that look into the same cell read it together
constexpr std::size_t kChunkProbes = std::size_t{1} << 22, kChunkFound = std::size_t{1} << 18;
constexpr double kMostError = 1e3;   // of a logarithm: nothing is known
constexpr double kMostScore = 1e15;  // of rows and classes that meet in float32

struct Draw {
  std::uint32_t block;
  double weight;
};
struct Entry {
  double score;
  std::uint32_t rank;
};

void copy_row(const PassResult& from, std::size_t i, PassResult& to, std::size_t row) {
  to.highest[row] = from.highest[i];
  to.excess[row] = from.excess[i];
  for (std::size_t t = 0; t < to.top; ++t) {
    to.best[row * to.top + t] = from.best[i * to.top + t];
    to.best_score[row * to.top + t] = from.best_score[i * to.top + t];
  }
}

}  // namespace

// The rows of one thread.
struct IndexSearch::Chunk {
  Chunk(CsrView view, std::size_t features, std::size_t most, std::span<const std::uint32_t> rank)
      : x(view, features), scan(view.rows(), most, rank), probes_begin{0} {}

  ByteRows x;
  ByteScan scan;
  std::vector<std::uint64_t> probes_begin;  // of each row
  std::vector<std::uint32_t> probes;        // cells
  std::vector<std::uint32_t> draws_begin{0};
  std::vector<Draw> draws;
  std::uint64_t first_row = 0;
  std::vector<float> scratch, share;
  std::vector<double> up_to;
  std::vector<Entry> entries;  // of a row: classes scored in double
};

IndexSearch::IndexSearch(const ClassIndex& index, const ClassVectors& vectors, const ClassList& classes)
    : index_(index), vectors_(vectors), by_name_(classes.by_name()), rank_(by_name_.size()) {
  for (std::uint32_t i = 0; i < by_name_.size(); ++i) rank_[by_name_[i]] = i;
  const std::size_t padded = (index.cells() + kLanes - 1) / kLanes * kLanes;
  promise_x_.assign(padded, 0.0F), promise_b_.assign(padded, 0.0F), log_members_.assign(padded, 0.0F);
  for (std::size_t c = 0; c < index.cells(); ++c) {
    const double log_n = std::log(static_cast<double>(index.members[c]));
    log_members_[c] = static_cast<float>(log_n);
    largest_log_members_ = std::max(largest_log_members_, log_members_[c]);
    const auto bounded = [](double v) {  // finite, so that it may be multiplied by 0
      return static_cast<float>(std::min(v, static_cast<double>(std::numeric_limits<float>::max())));
    };
    promise_x_[c] = bounded(2 * log_n * static_cast<double>(index.of_x[c]));
    promise_b_[c] = bounded(2 * log_n * static_cast<double>(index.of_b[c]));
  }
  for (const float b : index.classes.biases())
    if (b != kPaddingScore) largest_bias_ = std::max(largest_bias_, std::abs(static_cast<double>(b)));
}

PassResult IndexSearch::exact(CsrView rows, std::size_t top, std::size_t threads) const {
  return vectors_.pass(rows, {.top = top, .threads = threads, .tie_rank = rank_});
}

bool IndexSearch::fits_bytes(RowView x) const {
  double square = 0;
  for (const float v : x.value) square += static_cast<double>(v) * static_cast<double>(v);
  return square > 0 && x.index.size() <= kByteNonzeros && square < kMostScore * kMostScore &&
         std::sqrt(square * index_.largest_square) < kMostScore && largest_bias_ < kMostScore;
}

// Calls use(row, scores of all centres, promises of all cells).
template <class Use>
void IndexSearch::meet_centres(const ByteRows& x, const Use& use) const {
  const std::size_t blocks = index_.centres.blocks();
  std::vector<float> z(kByteTile * blocks * kLanes), promise(z.size());
  std::array<std::uint32_t, kByteTile> rows{};
  for (std::size_t r = 0; r < x.rows(); r += kByteTile) {
    const std::size_t count = std::min(kByteTile, x.rows() - r);
    for (std::size_t i = 0; i < count; ++i) rows[i] = static_cast<std::uint32_t>(r + i);
    byte_promises(index_.centres, x, rows.data(), count, {promise_x_.data(), promise_b_.data()}, z.data(),
                  promise.data());
    for (std::size_t i = 0; i < count; ++i)
      use(r + i, &z[i * blocks * kLanes], &promise[i * blocks * kLanes]);
  }
}

void IndexSearch::choose_cells(Chunk& chunk, const IndexSearchOptions& options) const {
  const std::size_t cells = index_.cells(), top = std::min(options.top, vectors_.classes());
  meet_centres(chunk.x, [&](std::size_t r, const float* z, const float* promise) {
    for (std::size_t probes = std::min(options.probes, cells);; probes = std::min(2 * probes, cells)) {
      const float least = places_of_largest(promise, cells, probes, chunk.probes);
      std::uint64_t classes = 0;
      for (std::size_t j = chunk.probes_begin.back(); j < chunk.probes.size() && classes < top; ++j)
        classes += index_.members[chunk.probes[j]];
      if (classes >= top || probes == cells) {  // always enough classes to choose from
        if (options.normaliser == Normaliser::sampled) draw_blocks(chunk, r, z, promise, least);
        break;
      }
      chunk.probes.resize(chunk.probes_begin.back());
    }
    chunk.probes_begin.push_back(chunk.probes.size());
    chunk.draws_begin.push_back(static_cast<std::uint32_t>(chunk.draws.size()));
  });
}

// Draws blocks from the cells that the row does not look into, a cell in proportion to what the sum of its
// exp(z) would be if scores were normal: n exp(z + s^2/2), or exp of the best where that dominates.
void IndexSearch::draw_blocks(Chunk& chunk, std::size_t r, const float* z, const float* promise,
                              float least) const {
  const std::size_t cells = index_.cells();
  chunk.share.resize(cells), chunk.up_to.resize((cells + kSharePart - 1) / kSharePart);
  cell_shares({z, promise, index_.of_x.data(), index_.of_b.data(), log_members_.data(), cells},
              static_cast<float>(chunk.x.squared[r]), least, least + largest_log_members_, chunk.share.data(),
              chunk.up_to.data());
  std::vector<double>& up_to = chunk.up_to;
  for (std::size_t part = 1; part < up_to.size(); ++part) up_to[part] += up_to[part - 1];
  const double total = up_to.back();
  if (total == 0) return;  // the row looks into all cells
  const CounterRandom random(index_.seed, Stream::index, 2);
  for (std::size_t i = 0; i < kDraws; ++i) {
    const CounterRandom::Block bits = random.at(chunk.first_row + r, i);
    // One draw from each of kDraws equal parts.
    double at = (static_cast<double>(i) + uniform_unit(bits.first)) / static_cast<double>(kDraws) * total;
    const auto part = static_cast<std::size_t>(
        std::min<std::ptrdiff_t>(std::upper_bound(up_to.begin(), up_to.end(), at) - up_to.begin(),
                                 static_cast<std::ptrdiff_t>(up_to.size()) - 1));
    at -= part > 0 ? up_to[part - 1] : 0.0;
    std::size_t chosen = cells;
    for (std::size_t c = part * kSharePart; c < std::min(cells, (part + 1) * kSharePart); ++c) {
      if (chunk.share[c] == 0) continue;
      chosen = c;
      at -= static_cast<double>(chunk.share[c]);
      if (at < 0) break;
    }
    if (chosen == cells) continue;  // rounding led to a part without cells
    const std::uint32_t blocks = index_.begin[chosen + 1] - index_.begin[chosen];
    chunk.draws.push_back(
        {index_.begin[chosen] + static_cast<std::uint32_t>(uniform_below(bits.second, blocks)),
         static_cast<double>(blocks) * total /
             (static_cast<double>(kDraws) * static_cast<double>(chunk.share[chosen]))});
  }
}

void IndexSearch::finish_row(Chunk& chunk, std::size_t r, RowView x, const IndexSearchOptions& options,
                             std::size_t row, IndexResult& result) const {
  PassResult& pass = result.pass;
  const auto found = chunk.scan.best(r);
  const std::size_t top = std::min(pass.top, found.size());
  double largest_scale = 0;
  for (const auto& f : found)
    largest_scale = std::max(largest_scale, static_cast<double>(index_.classes.scales()[f.at]));
  const double deviation = error_of_bytes(chunk.x.squared[r], static_cast<double>(chunk.x.scale[r]),
                                          index_.largest_square, largest_scale);
  const double least = static_cast<double>(found[top - 1].score) - kSpareDeviations * deviation;
  std::vector<Entry>& entries = chunk.entries;
  entries.clear();
  for (const auto& f : found) {
    if (static_cast<double>(f.score) < least) break;
    const std::uint32_t rank = index_.rank[f.at];
    entries.push_back({vectors_.score(x, by_name_[rank], chunk.scratch), rank});
  }
  const std::size_t scored = entries.size();
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.score > b.score || (a.score == b.score && a.rank < b.rank);
  });
  for (std::size_t t = 0; t < pass.top; ++t) {
    pass.best[row * pass.top + t] = by_name_[entries[t].rank];
    pass.best_score[row * pass.top + t] = entries[t].score;
  }
  if (options.normaliser == Normaliser::exact) return;

  std::array<BlockSum, kDraws> blocks;
  const std::size_t first = chunk.draws_begin[r], draws = chunk.draws_begin[r + 1] - first;
  auto highest = std::max(static_cast<double>(chunk.scan.highest(r)), entries[0].score);
  for (std::size_t i = 0; i < draws; ++i) {
    blocks[i] =
        sum_of_block(index_.classes, chunk.draws[first + i].block, chunk.x, static_cast<std::uint32_t>(r));
    highest = std::max(highest, static_cast<double>(blocks[i].highest));
  }
  // Relative to the highest of all scores. The classes scored in double take the place of their bytes.
  double certain = 0,
         seen = chunk.scan.sum(r) * std::exp(static_cast<double>(chunk.scan.highest(r)) - highest);
  for (const Entry& e : entries) certain += std::exp(e.score - highest);
  for (std::size_t i = 0; i < scored; ++i) seen -= std::exp(static_cast<double>(found[i].score) - highest);
  seen = std::max(seen, 0.0);
  double rest = 0, squares = 0;
  for (std::size_t i = 0; i < draws; ++i) {
    const double term = chunk.draws[first + i].weight * blocks[i].sum *
                        std::exp(static_cast<double>(blocks[i].highest) - highest);
    rest += term;
    squares += term * term;
  }
  double all = certain + seen + rest;
  if (!(all > 0 && std::isfinite(all))) {  // bytes that contradict the weights: only what was scored is known
    highest = entries[0].score;
    certain = 0;
    for (const Entry& e : entries) certain += std::exp(e.score - highest);
    pass.highest[row] = highest, pass.excess[row] = certain;
    result.error[row] = kMostError;
    return;
  }
  double variance = 0;  // of `rest`, a sum of `draws` independent terms
  if (draws > 1) {
    const auto n = static_cast<double>(draws);
    variance = std::max(0.0, squares - rest * rest / n) * n / (n - 1);
  }
  // Scores from bytes err by `deviation`, in the worst case all in the same direction because they share the
  // roundings of x. exp of a score with an error is too large by half the error's variance.
  const double by_bytes = deviation * (seen + rest), bias = 0.5 * deviation * by_bytes;
  pass.highest[row] = highest;
  pass.excess[row] = std::max(all, certain);
  result.error[row] =
      std::min((kInterval * std::sqrt(variance + by_bytes * by_bytes) + bias) / all, kMostError);
}

void IndexSearch::find_chunk(CsrView rows, std::size_t first, std::size_t count,
                             const IndexSearchOptions& options, IndexResult& result) const {
  const std::size_t top = result.pass.top, most = std::min(vectors_.classes(), top + kSpare + top / 2);
  const CsrView here = rows.slice(first, count);
  Chunk chunk(here, index_.classes.features(), most, index_.rank);
  chunk.first_row = options.first_row + first;
  choose_cells(chunk, options);
  // The rows of each cell.
  std::vector<std::uint32_t> begin(index_.cells() + 1), of_cell(chunk.probes.size());
  for (const std::uint32_t c : chunk.probes) ++begin[c + 1];
  for (std::size_t c = 0; c < index_.cells(); ++c) begin[c + 1] += begin[c];
  std::vector<std::uint32_t> next(begin.begin(), begin.end() - 1);
  for (std::uint32_t r = 0; r < count; ++r)
    for (std::uint64_t j = chunk.probes_begin[r]; j < chunk.probes_begin[r + 1]; ++j)
      of_cell[next[chunk.probes[j]]++] = r;
  for (std::size_t c = 0; c < index_.cells(); ++c)
    if (begin[c] < begin[c + 1])
      scan_blocks(index_.classes, index_.begin[c], index_.begin[c + 1] - index_.begin[c], chunk.x,
                  std::span(of_cell).subspan(begin[c], begin[c + 1] - begin[c]), chunk.scan);
  for (std::size_t r = 0; r < count; ++r) finish_row(chunk, r, here.row(r), options, first + r, result);
}

IndexResult IndexSearch::find(CsrView rows, const IndexSearchOptions& options) const {
  const std::size_t count = rows.rows();
  IndexResult out;
  PassResult& pass = out.pass;
  pass.top = std::min(options.top, vectors_.classes());
  pass.best.resize(count * pass.top), pass.best_score.resize(count * pass.top);
  pass.highest.resize(count), pass.excess.resize(count);
  out.error.assign(count, 0.0);
  std::vector<std::size_t> others;
  for (std::size_t r = 0; r < count; ++r)
    if (!fits_bytes(rows.row(r))) others.push_back(r);
  // Rows are numbered as they are given, so runs of rows between those searched exactly are searched at once.
  std::vector<std::pair<std::size_t, std::size_t>> pieces;  // first, count
  const std::size_t share = (count + options.threads - 1) / std::max<std::size_t>(1, options.threads);
  const std::size_t probes = std::max<std::size_t>(1, options.probes);
  const std::size_t most = std::clamp<std::size_t>(
      std::min({share, kChunkProbes / probes, kChunkFound / std::max<std::size_t>(1, pass.top)}), 64,
      kChunkRows);
  std::size_t at = 0;
  const auto add = [&](std::size_t end) {
    for (; at < end; at += std::min(most, end - at)) pieces.emplace_back(at, std::min(most, end - at));
  };
  for (const std::size_t r : others) add(r), at = r + 1;
  add(count);
  parallel_for(pieces.size(), options.threads,
               [&](std::size_t p) { find_chunk(rows, pieces[p].first, pieces[p].second, options, out); });
  if (options.normaliser == Normaliser::exact && others.size() < count) {
    const PassResult all = exact(rows, 1, options.threads);
    pass.highest = all.highest, pass.excess = all.excess;
  }
  if (!others.empty()) {
    Csr again;
    for (const std::size_t r : others) again.add(rows.row(r));
    const PassResult of_others = exact(again.view(), pass.top, options.threads);
    for (std::size_t i = 0; i < others.size(); ++i) copy_row(of_others, i, pass, others[i]);
  }
  return out;
}

std::vector<std::uint32_t> IndexSearch::cells_before(CsrView rows, const PassResult& exact,
                                                     std::size_t threads) const {
  std::vector<std::uint32_t> cell_of(by_name_.size());
  for (std::uint32_t c = 0; c < index_.cells(); ++c)
    for (std::size_t place = index_.begin[c] * kLanes; place < index_.begin[c + 1] * kLanes; ++place)
      if (index_.rank[place] != ClassIndex::kNobody) cell_of[index_.rank[place]] = c;
  const std::size_t top = exact.top;
  std::vector<std::uint32_t> before(rows.rows() * top, 0);
  constexpr std::size_t kRows = 64;  // per chunk
  parallel_for((rows.rows() + kRows - 1) / kRows, threads, [&](std::size_t chunk) {
    const std::size_t first = chunk * kRows;
    const CsrView here = rows.slice(first, std::min(kRows, rows.rows() - first));
    meet_centres(ByteRows(here, index_.classes.features()),
                 [&](std::size_t r, const float* /*z*/, const float* promise) {
                   const std::size_t row = first + r;
                   if (!fits_bytes(rows.row(row))) return;  // searched exactly
                   for (std::size_t t = 0; t < top; ++t) {
                     const float own = promise[cell_of[rank_[exact.best[row * top + t]]]];
                     before[row * top + t] = static_cast<std::uint32_t>(
                         std::count_if(promise, promise + index_.cells(), [&](float p) { return p > own; }));
                   }
                 });
  });
  return before;
}

}  // namespace truemax
