#include <algorithm>

#include "core/text.hpp"
#include "data/reading_memory.hpp"
#include "data/triples.hpp"

namespace truemax {

std::span<const TripleQuery> RankingTask::answers(const TripleQuery& query) const {
  const auto begin =
      std::lower_bound(known.begin(), known.end(), TripleQuery{query.entity, query.relation, 0});
  auto end = begin;
  while (end != known.end() && end->entity == query.entity && end->relation == query.relation) ++end;
  return {begin, end};
}

RankingBuilder::RankingBuilder(std::shared_ptr<const ClassList> classes, const FeatureSpace& space,
                               std::shared_ptr<MemoryBudget> memory)
    : classes_(std::move(classes)) {
  for (const std::string& name : space.relations) relations_.add(name);
  task_.entities = static_cast<std::uint32_t>(classes_->size());
  task_.relations = static_cast<std::uint32_t>(space.relations.size());
  task_.memory = MemoryCharge(std::move(memory));
}

void RankingBuilder::charge(std::uint64_t triples, const std::string& path) {
  // As read, and both queries among the known ones and among those to rank.
  constexpr std::uint64_t kTripleBytes = sizeof(Numbered) + 4 * sizeof(TripleQuery);
  try {
    task_.memory.add(triples * kTripleBytes);
  } catch (const OverBudget& over) {
    throw memory_error(over, path, 0, counted(triples, "triple"),
                       "give fewer triples to rank or to filter by, or raise --memory-limit");
  }
}

void RankingBuilder::add(const RawRows& raw, bool test) {
  charge(raw.size(), raw.path);
  std::vector<std::uint32_t> entity, relation;
  for (const std::string& name : raw.label_names) {
    const ClassId k = classes_->find(name);
    entity.push_back(k != kUnseenClass ? k : task_.entities + new_entities_.add(name));
  }
  for (const std::string& name : raw.words) relation.push_back(relations_.add(name));
  for (std::size_t i = 0; i < raw.size(); ++i) {
    const Numbered triple{entity[raw.rows.index[2 * i]], relation[raw.rows.index[2 * i + 1]],
                          entity[raw.label[raw.label_begin[i]]]};
    known_.push_back(triple);
    if (!test || (!raw.weight.empty() && raw.weight[i] == 0)) continue;
    // The number of all relations is not known yet: finish() adds it to the inverse ones.
    task_.queries.push_back({triple.head, triple.relation, triple.tail});
    task_.queries.push_back({triple.tail, triple.relation, triple.head});
    if (!raw.weight.empty()) task_.weight.push_back(raw.weight[i]);
  }
  task_.filtered |= !test;
}

void RankingBuilder::add_known(const DataView& training) {
  charge(training.row_count() / 2, "the training data");
  for (const ExampleId i : training.examples()) {
    if (number_of(training.row_of(i)) % 2 != 0) continue;
    const RowView x = training.x(i);
    known_.push_back({x.index[0], x.index[1] - task_.entities, training.label(i)});
  }
  task_.filtered = true;
}

std::shared_ptr<const RankingTask> RankingBuilder::finish() {
  task_.all_entities = task_.entities + static_cast<std::uint32_t>(new_entities_.size());
  task_.all_relations = static_cast<std::uint32_t>(relations_.size());
  for (std::size_t i = 1; i < task_.queries.size(); i += 2) task_.queries[i].relation += task_.all_relations;
  task_.known.reserve(2 * known_.size());
  for (const Numbered& triple : known_) {
    task_.known.push_back({triple.head, triple.relation, triple.tail});
    task_.known.push_back({triple.tail, triple.relation + task_.all_relations, triple.head});
  }
  known_ = {};
  std::sort(task_.known.begin(), task_.known.end());
  task_.known.erase(std::unique(task_.known.begin(), task_.known.end()), task_.known.end());
  return std::make_shared<const RankingTask>(std::move(task_));
}

}  // namespace truemax
