// The sources behind RowStream.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/input.hpp"
#include "data/row_stream.hpp"

namespace truemax {

// xmlrepository, lshtc, libsvm, fasttext, triples.
std::unique_ptr<RowSource> open_text(Input input, Format format, const StreamOptions& stream,
                                     std::vector<std::string>& notes);

// idx and npy. `find_labels` returns the path of the labels, empty for rows without labels; it is called once
// the features are known to be good.
std::unique_ptr<RowSource> open_dense(Input input, Format format, const StreamOptions& stream,
                                      const std::function<std::string()>& find_labels);

// The rows of a cache (data/cache_file.hpp).
class CacheFile;
std::unique_ptr<RowSource> open_cache(std::shared_ptr<const CacheFile> file, const StreamOptions& stream);

// Rows already in memory, delivered in batches.
std::unique_ptr<RowSource> give_out(RawRows rows);

// The row numbers (from 0) of a split, in the order of the split file; the data has `rows` rows.
std::vector<std::uint64_t> read_split(const std::string& path, std::uint64_t column, std::uint64_t rows,
                                      const std::shared_ptr<MemoryBudget>& memory = nullptr);

// The label file that matches the name of `features` ("train-images-idx3-ubyte.gz" ->
// "train-labels-idx1-ubyte.gz", "X_train.npy" -> "y_train.npy"); empty if there is none.
std::string find_label_file(const std::string& features);

}  // namespace truemax
