// Owners of the lines of W: every feature of every block has exactly one, and heavy blocks are cut.
#include "train/line_owners.hpp"

#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "train/problem.hpp"
#include "train/test_support.hpp"

namespace truemax {
namespace {

TEST(LineOwners, EveryLineHasOne) {
  const Dataset made = random_data({.rows = 400, .classes = 300, .features = 60});
  const DataView data(made);
  TrainOptions options = options_of("prox", 32);
  options.draw = "head-blocks", options.draws.head = 32;
  const auto draw = draw_for(data, options);
  for (const Draw* of_run : {draw.get(), static_cast<Draw*>(nullptr)})
    for (const auto& [intercept, ridge] : {std::pair{false, false}, {true, false}, {true, true}})
      for (const auto& [members, dealt_again] : {std::pair{1U, false},
                                                 {2U, false},
                                                 {3U, false},
                                                 {16U, false},
                                                 {90U, false},
                                                 {2U, true},
                                                 {3U, true},
                                                 {16U, true}}) {
        LineOwners owners(data, of_run, members, intercept, ridge);
        const std::size_t most_cuts = owners.most_cuts();
        std::vector<double> speeds;
        for (std::size_t m = 0; m < members; ++m) speeds.push_back(m % 3 == 0 ? 0.8 : 1.25);
        if (dealt_again) owners.deal(speeds);
        EXPECT_EQ(owners.most_cuts(), most_cuts);  // lists have memory for so many
        std::map<std::pair<std::uint32_t, FeatureId>, std::size_t> owner_of;
        for (const ExampleId i : data.examples())
          for (std::uint32_t b = 0; b < 19; ++b) {
            std::size_t seen = 0, parts = 0;
            owners.visit(b, data.x(i), [&](std::size_t owner, const RowView& x, std::uint32_t part) {
              ASSERT_LT(owner, members);
              EXPECT_TRUE(!intercept || (part == 0) == (parts == 0));  // the first one has it
              ++parts;
              EXPECT_EQ(x.index.size(), x.value.size());
              // Parts come in order, without gaps.
              EXPECT_TRUE(x.index.empty() || x.index.data() == data.x(i).index.data() + seen);
              seen += x.index.size();
              for (const FeatureId f : x.index)
                EXPECT_EQ(owner_of.try_emplace({b, f}, owner).first->second, owner);
            });
            EXPECT_EQ(seen, data.x(i).index.size());
            EXPECT_LE(parts, 1 + owners.most_cuts());
          }
        EXPECT_TRUE(members > 1 || owners.most_cuts() == 0);
        EXPECT_TRUE(members < 90 || owners.most_cuts() > 0);
        EXPECT_LE(owners.most_cuts(), LineOwners::most_cuts(members));
      }
}

// No thread has much more than its share of the updates, of which those of a block that is cut cost more, or
// than it is fast.
TEST(LineOwners, ShareTheHead) {
  const Dataset made = random_data({.rows = 2000, .classes = 1000, .features = 500});
  const DataView data(made);
  TrainOptions options = options_of("prox", 16);
  options.draw = "head-blocks", options.draws.head = 16;
  const auto draw = draw_for(data, options);
  constexpr std::size_t kMembers = 8;
  const std::vector<double> equal(kMembers, 1.0), unequal = {1.2, 0.9, 1, 0.8, 0.9, 1, 1, 1.2};
  for (const auto& [ridge, speeds] : {std::pair{false, equal}, {true, equal}, {false, unequal}}) {
    LineOwners owners(data, draw.get(), kMembers, false, ridge);
    owners.deal(speeds);
    std::vector<double> lines(kMembers, 0.0);
    const std::vector<double> load = block_loads(data, draw.get());
    for (const ExampleId i : data.examples())
      for (std::uint32_t b = 0; b < load.size(); ++b)
        owners.visit(b, data.x(i), [&](std::size_t owner, const RowView& x, std::uint32_t /*part*/) {
          lines[owner] += (owners.is_cut(b) ? LineOwners::cost_of_cut(ridge) : 1) * load[b] *
                          static_cast<double>(x.index.size());
        });
    double total = 0, speed = 0;
    for (const double l : lines) total += l;
    for (const double s : speeds) speed += s;
    for (std::size_t m = 0; m < kMembers; ++m) EXPECT_LT(lines[m], 1.3 * total * speeds[m] / speed) << m;
  }
}

}  // namespace
}  // namespace truemax
