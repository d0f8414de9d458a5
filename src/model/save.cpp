// Saving a model: one file, or a set with a part of each rank. Nobody ever holds W of all ranks.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "model/model.hpp"
#include "model/model_header.hpp"
#include "model/model_set.hpp"
#include "model/parse_json.hpp"
#include "model/safetensors.hpp"
#include "model/tensor_rows.hpp"
#include "ranks/together.hpp"
#include "weights/class_arrays.hpp"

namespace truemax {
namespace {

// One file with the weights of some classes.
class PartFile {
 public:
  // rows: the class of each row. ending: of the names of its tensors. tables: it holds the encoder's.
  PartFile(const Model& model, nlohmann::json metadata, std::vector<ClassId> rows, const std::string& ending,
           bool tables)
      : model_(model), metadata_(std::move(metadata)), rows_(std::move(rows)) {
    const std::uint64_t columns = model.weights.features();
    tensors_.push_back({"weight" + ending, {rows_.size(), columns}});
    sums_of_.push_back(&Checksums::weight);
    if (model.weights.has_intercept()) {
      tensors_.push_back({"intercept" + ending, {rows_.size()}});
      sums_of_.push_back(&Checksums::intercept);
    }
    const auto add_table = [&](const char* name, const Embedding& table, const BlockShare* share,
                               std::uint64_t Checksums::*sum) {
      if (table.columns == 0 || !tables) return;
      tensors_.push_back({name, {all_of(share, table.rows, false), table.columns}});
      sums_of_.push_back(sum);
    };
    add_table("embedding", model.encoder.features, model.encoder.share.get(), &Checksums::embedding);
    add_table("context", model.encoder.mixing, nullptr, &Checksums::context);
  }

  const std::vector<ClassId>& rows() const { return rows_; }
  void open(const std::string& path) {
    begin_ = header().size();  // checksums do not change its length
    file_.emplace(path);
    file_->reserve(begin_ + tensor_bytes());
  }
  std::uint64_t tensor_bytes() const {
    std::uint64_t numbers = 0;
    for (const NewTensor& tensor : tensors_) numbers += numbers_of(tensor);
    return numbers * sizeof(float);
  }
  std::uint64_t size() const { return begin_ + tensor_bytes(); }

  void put_row(std::uint64_t number, std::span<const float> row) {
    sums_.weight += row_checksum(row, number);
    file_->write_at(begin_ + number * row.size_bytes(), bytes_of(row));
  }
  // In the order of the rows.
  void put_intercept(std::span<const float> intercept) {
    sums_.intercept = row_checksum(intercept, 0);
    file_->write_at(begin_ + numbers_of(tensors_[0]) * sizeof(float), bytes_of(intercept));
  }
  // Rows of `embedding` or `context`, from `first` on.
  void put_table(const std::string& name, std::uint64_t first, std::span<const float> rows) {
    std::uint64_t at = begin_;
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      if (tensors_[t].name == name) {
        const std::size_t columns = tensors_[t].shape[1];
        for (std::size_t r = 0; r * columns < rows.size(); ++r)
          sums_.*sums_of_[t] += row_checksum(rows.subspan(r * columns, columns), first + r);
        return file_->write_at(at + first * columns * sizeof(float), bytes_of(rows));
      }
      at += numbers_of(tensors_[t]) * sizeof(float);
    }
  }
  // Returns the checksum of the metadata.
  std::string finish() {
    file_->write_at(0, header());
    file_->commit();
    file_.reset();
    return metadata_sum_;
  }

 private:
  static std::uint64_t numbers_of(const NewTensor& tensor) {
    std::uint64_t numbers = 1;
    for (const std::uint64_t extent : tensor.shape) numbers *= extent;
    return numbers;
  }
  static std::span<const char> bytes_of(std::span<const float> numbers) {
    return {reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes()};
  }
  static constexpr std::size_t kBytesOfClass = 9;  // in the metadata, besides its name: quotes, commas, count
  std::string header() {
    nlohmann::json& sums = metadata_["checksums"] = nlohmann::json::object();
    for (std::size_t t = 0; t < tensors_.size(); ++t)
      sums[tensors_[t].name] = checksum_text(sums_.*sums_of_[t]);
    const ClassList& classes = *model_.classes;
    std::size_t bytes = 1 << 16;
    for (const ClassId k : rows_) bytes += classes.name(k).size() + kBytesOfClass;
    std::string text = JsonText::with_lists(
        metadata_, bytes,
        [&](std::string& to) {
          for (const ClassId& k : rows_) {
            if (&k != rows_.data()) to += ',';
            JsonText::append_string(to, classes.name(k));
          }
        },
        [&](std::string& to) {
          for (const ClassId& k : rows_) {
            if (&k != rows_.data()) to += ',';
            to += nlohmann::json(classes.count(k)).dump();
          }
        });
    metadata_sum_ = checksum_text(xxh64(text));
    std::map<std::string, std::string> outside{{kMetadataChecksum, metadata_sum_}};
    outside["truemax"] = std::move(text);
    return make_safetensors_header(tensors_, outside);
  }

  const Model& model_;
  nlohmann::json metadata_;
  std::vector<ClassId> rows_;
  std::vector<NewTensor> tensors_;
  std::vector<std::uint64_t Checksums::*> sums_of_;  // by tensor
  Checksums sums_;
  std::uint64_t begin_ = 0;  // of the tensors
  std::string metadata_sum_;
  std::optional<AtomicFile> file_;
};

// Work on the file of the first rank while others send to it. If it fails, what they send is still received,
// so that they come to the end too.
class Attempts {
 public:
  template <class Work>
  void operator()(const Work& work) {
    if (error_.empty()) try {
        work();
      } catch (const UserError& failed) {
        error_ = failed.what();
      }
  }
  void require_success() const {
    if (!error_.empty()) throw UserError(error_);
  }

 private:
  std::string error_;
};

// Rows of a table, as bytes of any length.
class TableSink final : public StateSink {
 public:
  TableSink(const char* name, std::size_t columns, PartFile& file, Attempts& attempt)
      : name_(name), columns_(columns), file_(file), attempt_(attempt) {}
  void write(std::span<const char> bytes) override {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    const std::size_t row = columns_ * sizeof(float), whole = bytes_.size() / row;
    if (whole == 0) return;
    rows_.resize(whole * columns_);
    std::memcpy(rows_.data(), bytes_.data(), whole * row);
    attempt_([&] { file_.put_table(name_, first_, rows_); });
    first_ += whole;
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(whole * row));
  }

 private:
  const char* name_;
  std::size_t columns_;
  PartFile& file_;
  Attempts& attempt_;
  std::uint64_t first_ = 0;
  std::vector<char> bytes_;
  std::vector<float> rows_;
};

class NoSink final : public StateSink {
 public:
  void write(std::span<const char> /*bytes*/) override {}
};

// The encoder's tables go to the file of the first rank; `file` is null on the others.
void put_tables(const Model& model, PartFile* file, Attempts& attempt) {
  const auto put = [&](const char* name, const Embedding& table, const BlockShare* share) {
    if (table.columns == 0 || (share == nullptr && file == nullptr)) return;
    const std::uint64_t row = table.columns * sizeof(float);
    const auto own = [&](std::uint64_t at, std::span<char> to) {
      std::memcpy(to.data(), reinterpret_cast<const char*>(table.numbers.data()) + at, to.size());
    };
    std::optional<TableSink> rows;
    if (file != nullptr) rows.emplace(name, table.columns, *file, attempt);
    NoSink none;
    put_blocks(rows ? static_cast<StateSink&>(*rows) : none, share, kBlockClasses * row,
               all_of(share, table.rows, false) * row, own);
  };
  put("embedding", model.encoder.features, model.encoder.share.get());
  put("context", model.encoder.mixing, nullptr);
}

// Whole rows of some classes at a time, as long as a message should be.
std::size_t rows_at_once(const Weights& weights) {
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  return std::max<std::size_t>(1, kBytes / (weights.features() * sizeof(float)));
}

void send_rows(const Weights& own) {
  const std::size_t columns = own.features(), most = rows_at_once(own);
  std::vector<float> rows(std::min(most, own.classes()) * columns);
  for (std::size_t first = 0; first < own.classes(); first += most) {
    const std::size_t count = std::min(most, own.classes() - first);
    for (std::size_t i = 0; i < count; ++i)
      own.copy_class(static_cast<ClassId>(first + i), std::span(rows).subspan(i * columns, columns));
    ranks().send(std::as_bytes(std::span(rows).first(count * columns)), 0);
  }
  if (own.has_intercept()) ranks().send(std::as_bytes(own.intercept().first(own.classes())), 0);
}

// Rows and intercepts of all ranks.
void receive_rows(const Model& model, std::span<const std::uint32_t> place, PartFile& file,
                  Attempts& attempt) {
  const Weights& own = model.weights;
  const BlockShare* const share = own.share();
  const std::size_t columns = own.features(), most = rows_at_once(own);
  std::vector<float> rows(columns), intercept(own.has_intercept() ? place.size() : 0);
  const auto global = [&](std::size_t rank, std::size_t k) -> ClassId {
    if (share == nullptr) return static_cast<ClassId>(k);
    return static_cast<ClassId>(share->global(rank, k / kBlockClasses) * kBlockClasses + k % kBlockClasses);
  };
  for (ClassId k = 0; k < own.classes(); ++k) {  // in memory order: a block is read while it is in the cache
    own.copy_class(k, rows);
    attempt([&] { file.put_row(place[global(0, k)], rows); });
    if (own.has_intercept()) intercept[place[global(0, k)]] = own.intercept()[k];
  }
  for (std::size_t rank = 1; rank < ranks().size(); ++rank) {
    const std::size_t classes = share->classes_of(rank);
    rows.resize(std::min(most, classes) * columns);
    for (std::size_t first = 0; first < classes; first += most) {
      const std::size_t count = std::min(most, classes - first);
      ranks().receive(std::as_writable_bytes(std::span(rows).first(count * columns)), rank);
      attempt([&] {
        for (std::size_t i = 0; i < count; ++i)
          file.put_row(place[global(rank, first + i)], std::span(rows).subspan(i * columns, columns));
      });
    }
    if (!own.has_intercept()) continue;
    rows.resize(classes);
    ranks().receive(std::as_writable_bytes(std::span(rows)), rank);
    for (std::size_t k = 0; k < classes; ++k) intercept[place[global(rank, k)]] = rows[k];
  }
  if (own.has_intercept()) attempt([&] { file.put_intercept(intercept); });
}

void save_one_file(const Model& model, const std::string& path) {
  Ranks& all = ranks();
  std::optional<PartFile> file;
  std::vector<std::uint32_t> place;
  all.only_first([&] {
    place = model.classes->name_ranks();
    file.emplace(model, common_metadata(model), model.classes->by_name(), "", true).open(path);
  });
  Attempts attempt;
  if (file)
    receive_rows(model, place, *file, attempt);
  else
    send_rows(model.weights);
  put_tables(model, file ? &*file : nullptr, attempt);
  all.only_first([&] {
    attempt.require_success();
    file->finish();
    std::error_code ignored;  // an index that stays is not read while there is a file of the name
    if (std::filesystem::remove(index_name(path), ignored)) remove_parts(path, {});
  });
}

// What the ranks tell each other of their parts.
struct Written {
  std::uint64_t classes = 0, tensor_bytes = 0, file_bytes = 0;
  std::array<char, 16> checksum{};
};

PartFile part_of(const Model& model, std::size_t part, std::size_t parts) {
  std::vector<ClassId> rows = model.classes->by_name();
  std::erase_if(rows, [&](ClassId k) { return !own_number(model.weights, k); });
  nlohmann::json metadata{{"format_version", kModelVersion}, {"part", part}, {"parts", parts}};
  return {model, std::move(metadata), std::move(rows), tensor_ending(part), part == 1};
}

void put_own_rows(const Weights& own, PartFile& file) {
  std::vector<float> row(own.features()), intercept;
  for (std::size_t r = 0; r < file.rows().size(); ++r) {
    const ClassId k = *own_number(own, file.rows()[r]);
    own.copy_class(k, row);
    file.put_row(r, row);
    if (own.has_intercept()) intercept.push_back(own.intercept()[k]);
  }
  if (own.has_intercept()) file.put_intercept(intercept);
}

void write_index(const Model& model, const std::string& path, std::size_t edition,
                 std::span<const Written> parts) {
  std::vector<SetPart> listed;
  std::uint64_t total_size = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string file = part_name(path, i + 1, parts.size(), edition);
    std::error_code error;
    if (std::filesystem::file_size(file, error) != parts[i].file_bytes || error)
      throw UserError(
          fmt::format("{}: the first rank cannot see this part, which rank {} wrote; give a folder that all "
                      "machines share, or save one file",
                      file, i));
    listed.push_back({std::filesystem::path(file).filename().string(),
                      parts[i].classes,
                      {parts[i].checksum.begin(), parts[i].checksum.end()}});
    total_size += parts[i].tensor_bytes;
  }
  std::vector<std::string> tables;
  if (!model.encoder.empty()) tables.emplace_back("embedding");
  if (!model.encoder.mixing.empty()) tables.emplace_back("context");
  const std::string text =
      index_text(common_metadata(model), listed, total_size, model.weights.has_intercept(), tables);
  AtomicFile index(index_name(path));
  index.write_at(0, text);
  index.commit();
  std::error_code ignored;  // from here on the model is saved
  std::filesystem::remove(path, ignored);
  remove_parts(path, listed);
}

// An index that was written but could not be synced is there all the same.
void remove_unless_indexed(const std::string& part, const std::string& index) {
  std::error_code ignored;  // a part without an index harms nobody
  std::string text;
  if (std::filesystem::is_regular_file(index, ignored)) {
    std::ifstream in(index, std::ios::binary);
    text.assign(std::istreambuf_iterator<char>(in), {});
  }
  if (text.find(std::filesystem::path(part).filename().string()) == std::string::npos)
    std::filesystem::remove(part, ignored);
}

void save_set(const Model& model, const std::string& path) {
  Ranks& all = ranks();
  std::size_t edition = 0;
  if (all.first()) edition = free_edition(path, all.size());
  edition = all.broadcast_value(edition);
  const std::string own = part_name(path, all.rank() + 1, all.size(), edition);
  try {
    PartFile file = part_of(model, all.rank() + 1, all.size());
    together(all, [&] {
      file.open(own);
      put_own_rows(model.weights, file);
    });
    Attempts attempt;
    put_tables(model, all.first() ? &file : nullptr, attempt);
    Written written{file.rows().size(), file.tensor_bytes(), file.size(), {}};
    together(all, [&] {
      attempt.require_success();
      const std::string sum = file.finish();
      std::copy(sum.begin(), sum.end(), written.checksum.begin());
    });
    std::vector<Written> parts(all.size());
    all.gather_everywhere(std::as_bytes(std::span(&written, 1)), std::as_writable_bytes(std::span(parts)));
    all.only_first([&] { write_index(model, path, edition, parts); });
  } catch (const UserError&) {
    remove_unless_indexed(own, index_name(path));
    throw;
  }
}

}  // namespace

void save_model(const Model& model, const std::string& path, ModelForm form) {
  if (form == ModelForm::set)
    save_set(model, path);
  else
    save_one_file(model, path);
}

}  // namespace truemax
