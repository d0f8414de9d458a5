#include "draw/draw.hpp"

#include <fmt/format.h>

#include <array>

#include "core/error.hpp"
#include "draw/active.hpp"
#include "draw/all.hpp"
#include "draw/blocks.hpp"
#include "draw/frequency.hpp"
#include "draw/uniform.hpp"

namespace truemax {
namespace {

template <class D>
std::unique_ptr<Draw> by_count(const DrawRequest& r) {
  return std::make_unique<D>(r.classes, r.classes_per_step, r.shared);
}
template <class D>
std::unique_ptr<Draw> by_request(const DrawRequest& r) {
  return std::make_unique<D>(r);
}
std::unique_ptr<Draw> all_classes(const DrawRequest& r) {
  return std::make_unique<AllDraw>(r.classes, r.shared);
}
std::unique_ptr<Draw> blocks(const DrawRequest& r) {
  return std::make_unique<BlockDraw>(r, 0);
}
std::unique_ptr<Draw> head_blocks(const DrawRequest& r) {
  return std::make_unique<BlockDraw>(r, r.options.head);
}

constexpr std::array<DrawInfo, 7> kDraws{{
    {"uniform",
     "m classes uniformly without replacement; for one row from all but its label, for several rows, which "
     "share them, from all",
     "none", by_count<UniformDraw>, true, true},
    {"uniform-skip",
     "m classes uniformly without replacement from all, also for one row, whose label is left out where it "
     "was drawn: as in the paper's own runs",
     "none", by_count<UniformSkipDraw>, true, true},
    {"all", "every class but the label, in every step", "none", all_classes, false, true},
    {"frequency",
     "m single classes with replacement, by label frequency to the power --draw-power mixed with uniform "
     "ones",
     "24 bytes a class", by_request<FrequencyDraw>, true, true},
    {"blocks",
     "m/16 whole blocks of 16 classes with replacement, by the label mass of a block to the power "
     "--draw-power mixed with uniform ones; for one row the label's block always",
     "2 bytes a class", blocks, true, true, true},
    {"head-blocks", "the --head most frequent classes always, and of the rest blocks as above",
     "2 bytes a class", head_blocks, true, true, true},
    {"active",
     "for one row: the --active classes that scored highest with it so far always, and m others uniformly",
     "4 bytes a row and remembered class", by_request<ActiveDraw>, true, false},
}};

}  // namespace

void DrawBuffer::shape(std::size_t steps, std::size_t most_classes) {
  capacity = most_classes;
  classes.resize(steps * most_classes);
  weights.resize(steps * most_classes);
  count.resize(steps);
}

void BlockBuffer::shape(std::size_t steps, std::size_t most_blocks) {
  capacity = most_blocks;
  blocks.resize(steps * most_blocks);
  weights.resize(steps * most_blocks);
  count.resize(steps);
}

template <template <class> class As>
void DrawFields<As>::describe(OptionTable& table) {
  const DrawOptions d;
  const auto of = [](std::vector<std::string> draws) {
    return OptionTags{.tunable = true, .draws = std::move(draws)};
  };
  const std::vector<std::string> by_mass{"frequency", "blocks", "head-blocks"};
  table.group("Classes of a step");
  table.number("draw-power", {&power, d.power}, {0, 10},
               "classes are drawn by label frequency to this power; 0: all alike.", of(by_mass));
  // A class without mass has weight K/(m share): the smallest share keeps that in a usable range.
  table.number("draw-uniform", {&uniform_share, d.uniform_share}, {1e-6, 1},
               "share of the draws that is uniform, so that every class can be drawn.", of(by_mass));
  OptionTags of_head = of({"head-blocks"});
  of_head.plain_default = "chosen from the data";
  table.count("head", {&head, d.head}, {0, 4e9},
              "most frequent classes that every step takes, rounded up to blocks of 16.", of_head);
  table.count("active", {&active, d.active}, {1, 4096}, "classes remembered for each row.", of({"active"}));
  OptionTags of_rivals = of({"blocks", "head-blocks"});
  of_rivals.plain_default = "chosen from the data";
  table.count(
      "rivals", {&rivals, d.rivals}, {0, kMostRivals},
      "blocks of 16 classes remembered for each row, those of the classes that scored highest with it "
      "at some epochs, when all are scored; its steps take them all. For steps of one row.",
      of_rivals);
}

template struct DrawFields<Plain>;
template struct DrawFields<std::optional>;

void Draw::fill(const CounterRandom& random, std::uint64_t first_step, std::size_t steps,
                std::span<const ClassId> labels, std::span<const ExampleId> examples, DrawBuffer& out) const {
  const std::size_t most = most_classes(), per_step = words();
  out.shape(steps, most);
  out.words.resize(per_step);
  RandomWords source(random, first_step * per_step);
  for (std::size_t t = 0; t < steps; ++t) {
    for (std::uint64_t& word : out.words) word = source.next();
    out.count[t] =
        static_cast<std::uint32_t>(step(out.words, shared_ ? kUnseenClass : labels[t],
                                        shared_ || examples.empty() ? ExampleId{} : examples[t],
                                        out.classes.data() + t * most, out.weights.data() + t * most));
  }
}

void Draw::fill_blocks(const CounterRandom& /*random*/, std::uint64_t /*first_step*/, std::size_t steps,
                       std::span<const ClassId> /*labels*/, std::span<const ExampleId> /*examples*/,
                       BlockBuffer& out) const {
  out.shape(steps, 0);
  std::fill(out.count.begin(), out.count.end(), 0U);
}

std::span<const DrawInfo> draws() {
  return kDraws;
}

const DrawInfo& find_draw(std::string_view name) {
  for (const DrawInfo& info : kDraws)
    if (info.name == name) return info;
  throw UserError(fmt::format("--draw {}: there is no such draw; 'truemax methods' lists them", name));
}

std::unique_ptr<Draw> make_draw(const DrawRequest& r) {
  const DrawInfo& info = find_draw(r.name);
  if (r.shared && !info.takes_rows)
    throw UserError(fmt::format(
        "--draw {}: this draw is for one row a step; give --rows-per-step 1 or another --draw", r.name));
  if (r.shared && info.whole_blocks && r.options.rivals > 0)
    throw UserError(
        "--rivals: only steps of one row can remember blocks; give --rivals 0 or --rows-per-step 1");
  return info.make(r);
}

}  // namespace truemax
