#include "train/run_state.hpp"

#include <span>
#include <type_traits>

namespace truemax {
namespace {

// One list of fields for reading and writing.
template <class State, class Archive>
void each_field(State& s, Archive& archive) {
  archive(s.weights);
  archive(s.learnt.tables);
  archive(s.learnt.classes);
  archive(s.learnt.intercept);
  archive(s.learnt.features_square);
  archive(s.learnt.mixing_square);
  archive(s.learnt.classes_square);
  archive(s.learnt.intercept_square);
  archive(s.learnt.updates);
  archive(s.rows);
  archive(s.epoch);
  archive(s.step);
  archive(s.newton_done);
  archive(s.largest_weight);
  archive(s.companion.difference);
  archive(s.companion.log_decay);
  archive(s.companion.touched);
  archive(s.companion.journal);
  archive(s.companion.journal_limit);
  archive(s.draw_memory);
  archive(s.norms.of_class);
  archive(s.norms.total);
  archive(s.norms.common);
  archive(s.plan.seconds);
  archive(s.plan.segments);
  archive(s.last);
  archive(s.patience.waited);
  archive(s.patience.best);
  archive(s.patience.weights);
  archive(s.patience.tables);
}

class Writer {
 public:
  explicit Writer(StateSink& to) : to_(to) {}
  template <class T>
  void operator()(const T& value) {
    to_.put(value);
  }
  template <class T, class Allocator>
  void operator()(const std::vector<T, Allocator>& values) {
    to_.put_array(std::span<const T>(values));
  }
  void operator()(const EncoderTables& tables) {
    (*this)(tables.features);
    (*this)(tables.mixing);
    (*this)(tables.layers);
  }
  void operator()(const Embedding& table) {
    to_.put(std::uint64_t{table.rows});
    to_.put(std::uint64_t{table.columns});
    (*this)(table.numbers);
  }
  template <class T>
  void operator()(const std::vector<std::vector<T>>& lists) {
    to_.put(std::uint64_t{lists.size()});
    for (const std::vector<T>& list : lists) (*this)(list);
  }
  void operator()(const Weights& weights) { weights.write(to_); }
  void operator()(const std::shared_ptr<KeptWeights>& kept) {
    const bool there = kept != nullptr && !kept->empty();
    to_.put(there);
    if (there) kept->write(to_);
  }

 private:
  StateSink& to_;
};

class Reader {
 public:
  explicit Reader(StateSource& from) : from_(from) {}
  template <class T>
  void operator()(T& value) {
    from_.get(value);
  }
  template <class T, class Allocator>
  void operator()(std::vector<T, Allocator>& values) {
    from_.get_array(values);
  }
  void operator()(EncoderTables& tables) {
    (*this)(tables.features);
    (*this)(tables.mixing);
    (*this)(tables.layers);
  }
  void operator()(Embedding& table) {
    std::uint64_t rows = 0, columns = 0;
    from_.get(rows);
    from_.get(columns);
    (*this)(table.numbers);
    table.rows = rows, table.columns = columns;
  }
  template <class T>
  void operator()(std::vector<std::vector<T>>& lists) {
    lists.resize(from_.length_of<std::uint64_t>());
    for (std::vector<T>& list : lists) (*this)(list);
  }
  void operator()(Weights& weights) { weights.read(from_); }
  void operator()(std::shared_ptr<KeptWeights>& kept) {
    bool there = false;
    from_.get(there);
    if (!there) return;
    if (kept == nullptr) kept = std::make_shared<KeptWeights>("");
    kept->read(from_);
  }

 private:
  StateSource& from_;
};

}  // namespace

void write(const RunState& state, StateSink& to) {
  Writer writer(to);
  each_field(state, writer);
}

void read(RunState& state, StateSource& from) {
  Reader reader(from);
  each_field(state, reader);
  for (std::vector<ExampleId>& rows : state.companion.journal) rows.reserve(state.companion.journal_limit);
}

}  // namespace truemax
