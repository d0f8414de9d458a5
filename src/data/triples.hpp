// Triples (head, relation, tail) as rows, and as a task of ranking.
//
// The classes are the entities: every name that is a head or a tail. Feature k < K is the entity of class k;
// features K + r and K + R + r are relation r of R and its inverse. Triple i of a training set is two rows:
//     2 i      {head, K + r}      with the label tail
//     2 i + 1  {tail, K + R + r}  with the label head
// A test set has only the first, so its log-loss is that of tails.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "core/memory_budget.hpp"
#include "data/data_view.hpp"
#include "data/names.hpp"
#include "data/raw_rows.hpp"

namespace truemax {

// Throws UserError if options are set that triples cannot have.
void require_options_of_triples(const PreprocessOptions& options);

// make_training_set for triples: numbers entities and relations.
Dataset make_triples_set(RawRows&& raw, const PreprocessOptions& options, const std::string& class_weights);

// RowPreparer's work for triples. `relations`: of space. A triple with a name that training never saw is
// dropped and counted as unseen; without `drop_rows` it becomes a row without features.
void prepare_triples(RawRows& raw, const ClassList& classes, const NameViews& relations, bool drop_rows,
                     Dataset& data);

// Of the rows of a training set of triples, those with a tail as label. Other data stay as they are.
DataView tails_of(const DataView& data);

// A triple with one end asked for: an entity, a relation (from R on: the inverse of r - R) and the answer.
struct TripleQuery {
  std::uint32_t entity = 0, relation = 0, answer = 0;
  bool operator==(const TripleQuery&) const = default;
  bool operator<(const TripleQuery& other) const {
    return std::tie(entity, relation, answer) < std::tie(other.entity, other.relation, other.answer);
  }
};

// Triples whose heads and tails are to be found among all entities. Entities and relations that the model
// does not have are numbered after its own.
struct RankingTask {
  std::uint32_t entities = 0, relations = 0;  // of the model: K and R
  std::uint32_t all_entities = 0, all_relations = 0;
  std::vector<TripleQuery> queries;  // of triple i: 2 i asks for its tail, 2 i + 1 for its head
  std::vector<double> weight;        // by triple; empty: all 1
  // True answers, theirs included: sorted, each once.
  std::vector<TripleQuery> known;
  bool filtered = false;  // `known` has triples of other files
  MemoryCharge memory;

  // The true answers of a query.
  std::span<const TripleQuery> answers(const TripleQuery& query) const;
};

class RankingBuilder {
 public:
  // The names of a model or a training set.
  RankingBuilder(std::shared_ptr<const ClassList> classes, const FeatureSpace& space,
                 std::shared_ptr<MemoryBudget> memory);

  // Adds triples to rank (those of weight 0 are only known to be true), or only known ones. Throws UserError
  // if memory is short.
  void add_test(const RawRows& raw) { add(raw, true); }
  void add_known(const RawRows& raw) { add(raw, false); }
  void add_known(const DataView& training);  // a training set of triples
  std::shared_ptr<const RankingTask> finish();

 private:
  struct Numbered {
    std::uint32_t head, relation, tail;
  };
  void add(const RawRows& raw, bool test);
  void charge(std::uint64_t triples, const std::string& path);

  std::shared_ptr<const ClassList> classes_;
  NameStore relations_, new_entities_;
  std::vector<Numbered> known_;
  RankingTask task_;
};

}  // namespace truemax
