// The functions of the table in targets.cpp.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace truemax::fuzz {

// row_targets.cpp
bool read_any_format(std::string_view bytes);
bool read_xmlrepository(std::string_view bytes);
bool read_lshtc(std::string_view bytes);
bool read_libsvm(std::string_view bytes);
bool read_fasttext(std::string_view bytes);
bool read_ngrams(std::string_view bytes);
bool read_plain_text(std::string_view bytes);
bool read_triples(std::string_view bytes);
bool read_idx(std::string_view bytes);
bool read_npy(std::string_view bytes);
bool read_labels(std::string_view bytes);
bool read_packed(std::string_view bytes);

// beside_targets.cpp
bool read_row_weight_file(std::string_view bytes);
bool read_class_weight_file(std::string_view bytes);
bool read_split_file(std::string_view bytes);

// cache_target.cpp
bool read_cache(std::string_view bytes);
std::vector<std::string> good_caches();

// place_targets.cpp
bool read_place(std::string_view bytes);
bool read_much(std::string_view bytes);

// model_target.cpp
bool read_model_file(std::string_view bytes);
std::vector<std::string> good_models();

// index_target.cpp
bool read_index(std::string_view bytes);
std::vector<std::string> good_indexes();

// option_targets.cpp
bool read_option_words(std::string_view bytes);
bool read_option_json(std::string_view bytes);
bool read_run_log(std::string_view bytes);

// state_target.cpp
bool read_run_state(std::string_view bytes);
std::vector<std::string> good_run_states();
bool read_checkpoint(std::string_view bytes);
std::vector<std::string> good_checkpoints();

}  // namespace truemax::fuzz
