// Owners of the lines of W: every feature of every block has exactly one, and heavy blocks are cut.
#include "train/line_owners.hpp"

#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "train/step_inputs.hpp"
#include "train/test_support.hpp"

namespace truemax {
namespace {

TEST(LineOwners, EveryLineHasOne) {
  const Dataset made = random_data({.rows = 400, .classes = 300, .features = 60});
  const DataView data(made);
  Recipe options = options_of("prox", 32);
  options.draw = "head-blocks", options.draws.head = 32;
  const auto draw = draw_for(options, facts_of(data));
  for (const Draw* of_run : {draw.get(), static_cast<Draw*>(nullptr)})
    for (const auto& [intercept, ridge] : {std::pair{false, false}, {true, false}, {true, true}})
      for (const std::size_t members : {1U, 2U, 3U, 16U, 90U}) {
        const LineOwners owners(data, of_run, members, intercept, ridge);
        std::map<std::pair<std::uint32_t, FeatureId>, std::size_t> owner_of;
        for (const ExampleId i : data.examples())
          for (std::uint32_t b = 0; b < 19; ++b) {
            std::size_t seen = 0, parts = 0;
            owners.visit(b, data.x(i),
                         [&, always = intercept](std::size_t owner, const RowView& x, std::uint32_t part) {
                           ASSERT_LT(owner, members);
                           EXPECT_TRUE(!always || (part == 0) == (parts == 0));  // the first one has it
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
        for (const LineOwners::Cut& cut : owners.cuts()) EXPECT_GE(cut.owner.size(), 2U);
      }
}

// No thread has much more than its share of the updates, of which those of a block that is cut cost more or
// less.
TEST(LineOwners, ShareTheHead) {
  const Dataset made = random_data({.rows = 2000, .classes = 1000, .features = 500});
  const DataView data(made);
  Recipe options = options_of("prox", 16);
  options.draw = "head-blocks", options.draws.head = 16;
  const auto draw = draw_for(options, facts_of(data));
  constexpr std::size_t kMembers = 8;
  for (const bool ridge : {false, true}) {
    const LineOwners owners(data, draw.get(), kMembers, false, ridge);
    std::vector<double> lines(kMembers, 0.0);
    const std::vector<double> load = block_loads(data, draw.get());
    for (const ExampleId i : data.examples())
      for (std::uint32_t b = 0; b < load.size(); ++b)
        owners.visit(b, data.x(i), [&](std::size_t owner, const RowView& x, std::uint32_t /*part*/) {
          lines[owner] += (owners.is_cut(b) ? LineOwners::cost_of_cut(ridge) : 1) * load[b] *
                          static_cast<double>(x.index.size());
        });
    double total = 0;
    for (const double l : lines) total += l;
    for (const double l : lines) EXPECT_LT(l, 1.3 * total / kMembers);
  }
}

}  // namespace
}  // namespace truemax
