#include "train/search.hpp"

#include "train/start_values.hpp"

namespace truemax {

Found search(const Recipe& recipe, const SearchTools& given) {
  Weights own;
  SearchTools tools = given;
  if (tools.spare == nullptr) tools.spare = &own;
  if (recipe.learnt()) return search_learnt(recipe, tools);
  if (recipe.newton > 0) return search_newton(recipe, tools);
  const TrainSets& sets = tools.sets;
  const bool compares =
      recipe.sought.encoder && (sets.valid.has_value() || sets.data.row_count() >= kFewestRows);
  Found linear = search_linear(recipe, tools);
  if (!compares || !linear.search.finished) return linear;
  const LinearRival rival{linear.recipe, linear.search.trials};
  Found learnt = search_learnt(*recipe.rival, tools, &rival);
  if (learnt.search.compared && learnt.search.compared->learnt_wins()) return learnt;
  linear.search.finished = learnt.search.finished, linear.search.trials = learnt.search.trials;
  linear.search.compared = learnt.search.compared;
  return linear;
}

}  // namespace truemax
