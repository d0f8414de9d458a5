#include "targets.hpp"

#include <algorithm>

#include "target.hpp"

namespace truemax::fuzz {

// A new reader or loader is one line here and one function in targets.hpp.
std::span<const Target> targets() {
  static const Target all[] = {
      {"any_format", read_any_format},
      {"xmlrepository", read_xmlrepository},
      {"lshtc", read_lshtc},
      {"libsvm", read_libsvm},
      {"fasttext", read_fasttext},
      {"ngrams", read_ngrams},
      {"plain_text", read_plain_text},
      {"triples", read_triples},
      {"idx", read_idx},
      {"npy", read_npy},
      {"labels", read_labels},
      {"packed", read_packed},
      {"row_weights", read_row_weight_file},
      {"class_weights", read_class_weight_file},
      {"split", read_split_file},
      {"cache", read_cache, good_caches},
      {"place", read_place},
      {"memory", read_much},
      {"model", read_model_file, good_models},
      {"index", read_index, good_indexes},
      {"option_words", read_option_words},
      {"option_json", read_option_json},
      {"run_log", read_run_log},
      {"run_state", read_run_state, good_run_states},
      {"checkpoint", read_checkpoint, good_checkpoints},
  };
  return all;
}

const Target* find_target(std::string_view name) {
  const auto all = targets();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Target& t) { return t.name == name; });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace truemax::fuzz
