#include "train/plan_json.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "train/plan_seconds.hpp"

namespace truemax {
namespace {

using Json = nlohmann::ordered_json;

Json span_json(const Span& span) {
  return {span.low, span.high};
}

Json sought_json(const PlanSeconds& seconds) {
  Json all = Json::array();
  for (const Outlook& trials : seconds.search)
    for (const SoughtValue& v : trials.values) {
      Json one{{"option", v.name}, {"from", v.from}};
      if (!trials.about.empty()) one["of"] = trials.about;
      if (trials.why_none.empty()) {
        if (v.factor > 0) one["factor"] = v.factor;
        one["range"] = span_json(v.range);
        one["rows"] = trials.rows, one["judged_on"] = trials.judges;
      } else {
        one["untried"] = trials.why_none;
      }
      all.push_back(std::move(one));
    }
  return all;
}

Json memory_json(const MemoryPlan& m) {
  Json json{{"weights", m.weights}, {"rows", m.rows}, {"data", m.data}, {"evaluation", m.evaluation}};
  if (m.best > 0) json["best"] = m.best;
  json["total"] = m.total(), json["there"] = m.there;
  return json;
}

// Equal values in a row are one entry: [value, how often]. Classes are in the order of their mass.
Json runs_of(const std::vector<double>& values) {
  Json runs = Json::array();
  for (std::size_t i = 0; i < values.size();) {
    std::size_t end = i + 1;
    while (end < values.size() && values[end] == values[i]) ++end;
    runs.push_back({values[i], end - i});
    i = end;
  }
  return runs;
}

std::vector<double> from_runs(const nlohmann::json& runs) {
  std::vector<double> values;
  for (const auto& run : runs)
    values.insert(values.end(), run.at(1).get<std::size_t>(), run.at(0).get<double>());
  return values;
}

const char* name_of(EncoderKind encoder) {
  for (const auto& [name, kind] : kEncoderNames)
    if (kind == encoder) return name;
  return "";
}
EncoderKind encoder_named(const std::string& text) {
  for (const auto& [name, kind] : kEncoderNames)
    if (name == text) return kind;
  throw UserError(fmt::format("there is no encoder {}", text));
}

// A member of Problem and its name, for both directions.
template <class Visit, class Facts>
void each_field(Facts& p, const Visit& visit) {
  visit("rows", p.rows), visit("examples", p.examples), visit("inputs", p.inputs);
  visit("features", p.features), visit("classes", p.classes), visit("nonzeros", p.nonzeros);
  visit("nonzeros_per_row", p.nonzeros_per_row);
  visit("shares_inputs", p.shares_inputs), visit("groups_inputs", p.groups_inputs);
  visit("has_weights", p.has_weights), visit("has_example_weights", p.has_example_weights);
  visit("normalized", p.normalized), visit("hashed", p.hashed);
  visit("triples", p.triples), visit("windows", p.windows), visit("width", p.width);
  visit("has_valid", p.has_valid), visit("valid_rows", p.valid_rows), visit("test_rows", p.test_rows);
  visit("bytes", p.bytes), visit("grouping_bytes", p.grouping_bytes), visit("mean_weight", p.mean_weight);
}

template <class T>
void read(const nlohmann::json& json, const char* name, std::optional<T>& field) {
  if (json.contains(name)) field = json.at(name).get<T>();
}

template <class Make>
auto checked(const char* what, const Make& make) {
  try {
    return make();
  } catch (const nlohmann::json::exception& error) {
    throw UserError(
        fmt::format("the JSON of {} is not as truemax plan --json prints it: {}", what, error.what()));
  }
}

}  // namespace

Json to_json(const Plan& plan) {
  const PlanSeconds seconds = seconds_of(plan);
  const Recipe& recipe = plan.recipe;
  Json json{{"solver", plan.solver().name}};
  if (plan.finish != nullptr && plan.finish != &plan.solver()) json["finish"] = plan.finish->name;
  json["options"] = to_json(recipe);
  json["sought"] = sought_json(seconds);
  if (recipe.rival) json["rival"] = to_json(*recipe.rival);
  json["rows"] = plan.problem.examples;
  json["steps_per_epoch"] = plan.steps_per_epoch;
  json["rows_per_step"] = plan.rows_per_step;
  json["steps_ahead"] = plan.steps_ahead;
  json["shape"] = {{"rows", plan.shape.rows}, {"drawn", plan.shape.drawn}, {"columns", plan.shape.columns}};
  json["memory"] = memory_json(plan.memory);
  json["device"] = recipe.on_gpu() && plan.machine.card ? plan.machine.card->name : "cpu";
  json["threads"] = plan.machine.threads;
  json["seconds"] = span_json(seconds.training);
  json["evaluation_seconds"] = span_json(seconds.evaluation);
  return json;
}

void verify(const nlohmann::json& saved, const Plan& plan) {
  if (!saved.is_object()) return;
  const auto there = [&](const char* name) {
    const auto found = saved.find(name);
    return found == saved.end() ? nlohmann::json() : *found;
  };
  const auto require = [&](const char* what, const nlohmann::json& before, const nlohmann::json& now) {
    if (before.is_null() || before == now) return;
    throw UserError(fmt::format(
        "its plan has {} {} and here it is {}: this truemax would not take the same steps; go on with the "
        "version, the data and the options of that run",
        what, before.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), now.dump()));
  };
  require("rows", there("rows"), plan.problem.examples);
  require("steps an epoch", there("steps_per_epoch"), plan.steps_per_epoch);
  // A run may go on elsewhere.
  if (there("device") == "cpu" && !plan.recipe.on_gpu())
    require("the solver", there("solver"), plan.solver().name);
}

Json to_json(const Problem& problem) {
  Json json;
  each_field(problem, [&](const char* name, const auto& value) { json[name] = value; });
  json["encoder"] = name_of(problem.encoder);
  if (const auto& s = problem.stream)
    json["stream"] = {{"blocks", s->blocks},
                      {"window_blocks", s->window_blocks},
                      {"buffer_bytes", s->buffer_bytes},
                      {"most_copied", s->most_copied}};
  json["label_mass"] = runs_of(*problem.label_mass);
  if (problem.mean_square) json["mean_square"] = *problem.mean_square;
  if (problem.squares_fit) json["squares_fit"] = *problem.squares_fit;
  if (problem.units_fit) json["units_fit"] = *problem.units_fit;
  if (problem.cosine) json["cosine"] = *problem.cosine;
  return json;
}

Problem problem_of_json(const nlohmann::json& json) {
  return checked("a problem", [&] {
    Problem p;
    each_field(p, [&](const char* name, auto& field) { json.at(name).get_to(field); });
    p.encoder = encoder_named(json.at("encoder"));
    if (json.contains("stream")) {
      const auto& s = json.at("stream");
      p.stream = {s.at("blocks"), s.at("window_blocks"), s.at("buffer_bytes"), s.at("most_copied")};
    }
    p.label_mass = std::make_shared<const std::vector<double>>(from_runs(json.at("label_mass")));
    read(json, "mean_square", p.mean_square), read(json, "squares_fit", p.squares_fit);
    read(json, "units_fit", p.units_fit), read(json, "cosine", p.cosine);
    return p;
  });
}

Json to_json(const Machine& machine) {
  Json json{{"threads", machine.threads},
            {"memory", machine.memory},
            {"ranks", machine.ranks},
            {"in_groups", machine.in_groups},
            {"knows_card", machine.knows_card}};
  if (machine.card) json["card"] = {{"name", machine.card->name}, {"free", machine.card->free}};
  return json;
}

Json to_json(const Start::Shape& model) {
  return {{"learnt", model.learnt},        {"tied", model.tied},
          {"hidden", model.hidden},        {"layers", model.layers},
          {"intercept", model.intercept},  {"encoder", name_of(model.encoder)},
          {"of_triples", model.of_triples}};
}

Start::Shape shape_of_json(const nlohmann::json& json) {
  return checked("a model", [&] {
    Start::Shape m;
    m.learnt = json.at("learnt"), m.tied = json.at("tied"), m.intercept = json.at("intercept");
    m.hidden = json.at("hidden"), m.layers = json.at("layers");
    m.encoder = encoder_named(json.at("encoder")), m.of_triples = json.at("of_triples");
    return m;
  });
}

}  // namespace truemax
