// Where files are, and how much memory there is: what the content of a small regular file cannot reach.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>

#include "data/load.hpp"
#include "data/row_stream.hpp"
#include "data/sources.hpp"
#include "data/weight_files.hpp"
#include "model/model.hpp"
#include "row_targets.hpp"
#include "targets.hpp"
#include "train/checkpoint.hpp"
#include "train/replay.hpp"

namespace truemax::fuzz {
namespace {

// A byte from the front of the input; 0 if there is none.
unsigned char take(std::string_view& bytes) {
  if (bytes.empty()) return 0;
  const auto first = static_cast<unsigned char>(bytes.front());
  bytes.remove_prefix(1);
  return first;
}

// A pipe that holds bytes and then ends; also as standard input.
class Pipe {
 public:
  explicit Pipe(std::string_view bytes, bool standard_input) {
    int ends[2];
    require(::pipe2(ends, O_CLOEXEC) == 0, "there is a pipe");
    bytes = bytes.substr(0, 4096);  // a pipe holds this much without a reader
    require(bytes.empty() || ::write(ends[1], bytes.data(), bytes.size()) > 0, "a pipe takes bytes");
    ::close(ends[1]);
    end_ = ends[0];
    path_ = "/proc/self/fd/" + std::to_string(end_);
    if (!standard_input) return;
    path_ = kStandardInput;
    before_ = ::dup(STDIN_FILENO);
    ::dup2(end_, STDIN_FILENO);
  }
  ~Pipe() {
    ::close(end_);
    if (path_ != kStandardInput) return;
    if (before_ >= 0) ::dup2(before_, STDIN_FILENO), ::close(before_);
    if (before_ < 0) ::close(STDIN_FILENO);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  const std::string& path() const { return path_; }

 private:
  int end_ = -1, before_ = -1;
  std::string path_;
};

bool read_rows_live(const std::string& path) {
  ReadOptions options;
  options.memory = std::make_shared<MemoryBudget>(kBudget);
  StreamOptions stream;
  stream.live = true;
  stream.window = stream.piece = 64;
  stream.batch_bytes = 16;
  stream.labels_required = false;
  return accepts(shown_path(path), [&] {
    std::vector<std::string> notes;
    RowStream rows(path, options, stream, notes);
    for (RawRows batch = rows.next(2); batch.size() > 0; batch = rows.next(2))
      require(batch.size() <= 2, "a batch has at most the rows asked for");
  });
}

bool read_at(const std::string& path, unsigned char reader) {
  const std::string shown = shown_path(path);
  const auto memory = std::make_shared<MemoryBudget>(kBudget);
  switch (reader % 6) {
    case 0:
      return read_rows_live(path);
    case 1:
      return accepts(shown, [&] { read_row_weights(path, memory); });
    case 2:
      return accepts(shown, [&] { read_split(path, 1, 9, memory); });
    case 3:
      return accepts(path == kStandardInput ? "" : path, [&] { load_model(path, kBudget); });
    case 4:
      return accepts(path == kStandardInput ? "" : path, [&] { read_logged_run(path); });
    default:
      return accepts(path, [&] { CheckpointFile{path}; });
  }
}

// Three dense rows, and labels in a file that has to be found by its name. Names: "FEATURES\nLABELS\nTYPED".
bool read_beside(std::string_view names) {
  const auto next = [&] {
    std::string name(names.substr(0, std::min<std::size_t>(names.find('\n'), 60)));
    names.remove_prefix(std::min(names.size(), name.size() + 1));
    // Messages show a path as the user typed it, so only what is fit for a terminal.
    const auto odd = [](char c) { return c == '/' || c < ' ' || c > '~'; };
    std::replace_if(name.begin(), name.end(), odd, '_');
    return name.empty() || name == "." || name == ".." ? std::string("x") : name;
  };
  const std::string features = next(), labels = next();
  const std::string folder = scratch_folder() + "/beside/";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  std::ofstream(folder + labels, std::ios::binary) << std::string("\0\0\x08\x01\0\0\0\x03\0\1\0", 11);
  std::ofstream(folder + features, std::ios::binary)
      << std::string("\0\0\x08\x02\0\0\0\x03\0\0\0\x02\1\0\2\3\0\0", 18);
  RowRules rules;
  // What is typed: both names, or only that of the features.
  const std::string typed = names.empty() ? folder + features : folder + features + "," + folder + labels;
  return read_rows_of(typed, folder, rules);
}

}  // namespace

bool read_place(std::string_view bytes) {
  const unsigned char place = take(bytes), reader = take(bytes);
  // The last one can be opened, but reading it fails.
  static const char* const kPlaces[] = {"/", "/no/such/file", "/dev/null", "/etc/passwd/x", "/proc/self/mem"};
  constexpr std::size_t kCount = std::size(kPlaces);
  if (place % (kCount + 3) < kCount) return read_at(kPlaces[place % (kCount + 3)], reader);
  if (place % (kCount + 3) == kCount) return read_beside(bytes);
  const Pipe pipe(bytes, place % (kCount + 3) == kCount + 1);
  return read_at(pipe.path(), reader);
}

// Much text from few bytes, read with the least memory: the pattern again and again, with the number of the
// copy in place of each '#'.
bool read_much(std::string_view bytes) {
  constexpr std::size_t kMost = std::size_t{12} << 20;
  constexpr Format kFormats[] = {Format::libsvm, Format::fasttext, Format::triples, Format::text,
                                 Format::lshtc};
  const unsigned char how = take(bytes);
  const std::size_t size = std::min(kMost, std::size_t{1} << take(bytes) % 25);
  if (bytes.empty()) return false;
  bytes = bytes.substr(0, 200);
  std::string text;
  text.reserve(size + 4096);
  for (std::uint64_t copy = 0; text.size() < size; ++copy)
    for (const char c : bytes) {
      if (c == '#')
        text += std::to_string(copy);
      else
        text += c;
    }
  const MemoryFile file(text);
  text = std::string();
  ReadOptions options;
  const auto memory = options.memory = std::make_shared<MemoryBudget>(1);  // at least kLeast
  options.format = kFormats[how % std::size(kFormats)];
  if (how / 8 % 4 == 1) options.row_weights = file.path();
  if (how / 8 % 4 == 2) options.split = file.path();
  options.ngrams.words = how / 64 % 2 == 1 && options.format == Format::fasttext ? 3 : 1;
  options.ngrams.buckets = 1000;
  std::vector<std::string> notes;
  return accepts(file.path(), [&] {
    if (how / 8 % 4 == 3) read_row_weights(file.path(), memory);
    const RawRows rows = RowStream(file.path(), options, {}, notes).next(~0ULL);
    require(memory->held() <= 2 * MemoryBudget::kLeast, "what is read fits the budget");
  });
}

}  // namespace truemax::fuzz
