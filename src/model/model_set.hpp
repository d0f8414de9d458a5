// A model as a set of files, one written by each rank, and an index that names them: the convention of
// safetensors for large models. For m.safetensors the parts are m-00001-of-00004.safetensors and so on, and
// the index is m.safetensors.index.json. docs/model-file.md describes them.
//
// The index alone says which files are the model: parts of a new set never have the names of those of an old
// one, so that an interrupted save leaves the old model as it was.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/model_header.hpp"

namespace truemax {

std::string index_name(const std::string& model);

// The index that this path means: an index itself, or the name of a model that is not there as one file.
// Empty: none.
std::string index_of_set(const std::string& path);

// "m-00002-of-00004.safetensors"; part: from 1. `edition`: other names for the parts of a model of the same
// name.
std::string part_name(const std::string& model, std::size_t part, std::size_t parts, std::size_t edition);
// The first edition of which no file exists.
std::size_t free_edition(const std::string& model, std::size_t parts);
std::string tensor_ending(std::size_t part);  // ".00002"

// What the index says of a part.
struct SetPart {
  std::string file;  // its name in the folder of the index
  std::uint64_t classes = 0;
  std::string checksum;  // of its metadata
};

// `metadata`: of the whole model, without classes; parts and tensors are added to it. total_size: bytes of
// all tensors. `tables`: names of tensors that only the first part has.
std::string index_text(nlohmann::json metadata, const std::vector<SetPart>& parts, std::uint64_t total_size,
                       bool intercept, const std::vector<std::string>& tables);

// Reads and checks index and headers of all parts. Throws UserError.
void read_set(const std::string& index, CheckedHeader& h);

// Removes the files of sets of this name but those to keep; those of a model of another name stay.
void remove_parts(const std::string& model, const std::vector<SetPart>& keep);

}  // namespace truemax
