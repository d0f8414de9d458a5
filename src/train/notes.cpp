#include "train/notes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "rule/methods.hpp"
#include "train/start_values.hpp"

namespace truemax {

std::string note_on_classes(const Recipe& r, const Problem& problem) {
  const std::uint64_t others = problem.classes - (r.rows_per_step == 1 ? 1 : 0);
  if (r.classes_per_step <= others || r.draw != "uniform" || find_method(r.method).whole_set) return {};
  return fmt::format("--classes-per-step {}: there are {} to draw from, and every step takes them all",
                     r.classes_per_step, others);
}

// Steps that suit short rows are too long for an intercept, and learnt features begin with numbers that suit
// rows of length 1. Newton's method and steps by weight have units of their own.
std::string note_on_short_rows(const Draft& d, const Problem& problem) {
  const Recipe& r = d.recipe;
  const bool has_values = !problem.is_text() && !problem.triples;
  if (!d.automatic || !has_values || problem.normalized) return {};
  if (!r.intercept && !r.learnt() && !r.sought.encoder) return {};
  if (r.newton_alone() || find_method(r.method).by_weight) return {};
  const double norm = *problem.mean_square;
  if (norm >= kShortRows || norm <= kLeastNorm) return {};  // l2 leaves empty rows as they are
  return fmt::format(
      "rows are short: the mean of |x|^2 is {:.2g}, and training suits rows of about 1; "
      "'--normalize l2' usually gives a lower log-loss",
      norm);
}

std::vector<std::string> notes_of_unused(Asked asked, const Draft& d) {
  OptionTable table;
  asked.describe(table);
  const Recipe& r = d.recipe;
  const std::string& method = asked.automatic() ? r.method : *asked.method;
  const MethodInfo& info = find_method(method);
  const bool chosen = d.automatic && !r.learnt() && !asked.draw;
  const std::string_view draw = chosen ? "head-blocks" : std::string_view(r.draw);
  std::vector<std::string> notes;
  for (const Option& option : table.options()) {
    if (!option.said()) continue;
    const std::vector<std::string>&users = option.tags.methods, &draw_users = option.tags.draws;
    if (!users.empty() && find_alias(method) != nullptr)
      notes.push_back(fmt::format("--{} has no effect on {}, whose options are fixed; it is for {}",
                                  option.name, method, fmt::join(users, ", ")));
    else if (!users.empty() && std::find(users.begin(), users.end(), info.name) == users.end())
      notes.push_back(fmt::format("--{} has no effect on {}; it is for {}", option.name, info.name,
                                  fmt::join(users, ", ")));
    else if (info.whole_set && (option.name == "draw" || !draw_users.empty()))
      notes.push_back(
          fmt::format("--{} has no effect on {}, which takes all classes", option.name, info.name));
    else if (!draw_users.empty() && std::find(draw_users.begin(), draw_users.end(), draw) == draw_users.end())
      notes.push_back(fmt::format("--{} has no effect on the draw {}; it is for {}", option.name, draw,
                                  fmt::join(draw_users, ", ")));
    else if (option.name == "classes-per-step" && !info.whole_set && !find_draw(draw).takes_count)
      notes.push_back(
          fmt::format("--{} has no effect on the draw {}, which takes all classes", option.name, draw));
  }
  if (info.name == "lbfgs")
    for (const char* name : {"step", "schedule", "decay", "rows-per-step", "visit"})
      if (table.find(name)->said())
        notes.push_back(
            fmt::format("--{} has no effect on lbfgs, which finds its own step over all rows", name));
  if (asked.decay && r.schedule == Schedule::linear)
    notes.emplace_back("--decay has no effect on --schedule linear");
  return notes;
}

std::vector<std::string> notes_on(const Recipe& r, bool automatic) {
  const MethodInfo& info = find_method(r.method);
  std::vector<std::string> notes;
  if (info.name == "adam" && !automatic && r.rows_per_step == 1)
    notes.emplace_back(
        "adam takes a step over all weights for every row; --rows-per-step 256 takes a fraction of the time");
  if (info.whole_set && r.classes_per_step > 1)
    notes.push_back(
        fmt::format("--classes-per-step has no effect on {}, which takes all classes", info.name));
  if (r.ridge_intercept && !r.intercept)
    notes.emplace_back("--ridge-intercept has no effect without --intercept");
  return notes;
}

}  // namespace truemax
