// truemax convert
#include "data/convert.hpp"

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/command.hpp"
#include "cli/progress.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "core/parallel.hpp"
#include "core/text.hpp"
#include "data/cache_file.hpp"
#include "data/input.hpp"
#include "data/row_stream.hpp"
#include "data/weight_files.hpp"

namespace truemax {
namespace {

struct ConvertCommand {
  std::string from, to;
  ReadOptions read;
  NgramRule ngrams{1, {}, PreprocessOptions::kDefaultNgramBuckets};
  std::uint64_t max_rows = 0, threads = 0, memory_limit = 0;
  bool json = false, quiet = false;
  std::vector<std::string> given;
};

// "1.20M rows/s  42%  0:31 left".
class RowRate {
 public:
  void show(const ConvertProgress& now) {
    if (!line_.due()) return;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
    std::string text = fmt::format("{} rows  {} rows/s", now.rows,
                                   rate_text(static_cast<double>(now.rows) / std::max(seconds, 1e-9)));
    if (now.share > 0)
      text += fmt::format("  {:3.0f}%  {} left", 100 * now.share,
                          clock_text(seconds / now.share * std::max(0.0, 1 - now.share)));
    line_.show(text);
  }

 private:
  ProgressLine line_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

// The output must not destroy what is read; files beside the data are known only once they are open.
void require_other_file(const std::string& to, const std::vector<std::string>& inputs) {
  for (const std::string& input : inputs)
    if (!input.empty() && input != kStandardInput && same_file(to, input))
      throw UserError(fmt::format("{}: this is an input of the conversion; give another name", to));
}

// An older cache is replaced; anything else is somebody's file.
void require_cache_or_nothing(const std::string& to) {
  if (to == kStandardInput) throw UserError("CACHE is the name of a file, not '-'; give a name");
  if (file_exists(to) && !is_cache(to))
    throw UserError(
        fmt::format("{}: this file exists and is not a cache; remove it, or give another name", to));
}

// Of the rows of a cache, what the next command must say too.
std::string next_command(const ConvertCommand& command, Format format) {
  std::string line = "truemax train " + shell_word(command.to);
  if (format == Format::text || format == Format::triples) return line;  // these train in memory only
  if (command.ngrams.any()) line += " " + ngrams_typed(command.ngrams);
  return line + " --stream";
}

int run_convert(ConvertCommand& command) {
  require_writable(command.to, 0, "");
  require_other_file(command.to,
                     {command.from, command.read.label_file, command.read.split, command.read.row_weights});
  require_cache_or_nothing(command.to);
  require_standard_input_once({command.from}, {command.read.row_weights});
  command.read.memory = std::make_shared<MemoryBudget>(command.memory_limit);
  if (command.ngrams.any()) command.read.ngrams = command.ngrams;
  const DropClaimsOnSignal unfinished;  // a signal ends it at once, also while it waits for a pipe
  std::optional<RowRate> rate;
  if (!command.quiet && ProgressLine::wanted()) rate.emplace();
  std::vector<std::string> notes;
  const std::size_t threads = command.threads > 0 ? command.threads : available_threads();
  const ConvertResult result = convert_file(command.from, command.to, command.read, command.max_rows, threads,
                                            notes, [&](const ConvertProgress& now) {
                                              if (rate) rate->show(now);
                                            });
  rate.reset();
  if (!command.quiet) print_notes(notes);
  const CacheInfo& info = result.info;
  if (command.json)
    print_json({{"path", command.to},
                {"format", format_name(info.format)},
                {"rows", info.rows},
                {"features", info.features},
                {"labels", info.name_count},
                {"nonzeros", info.nonzeros},
                {"blocks", info.block_count},
                {"bytes", info.file_bytes}});
  else if (!command.quiet)
    say(stdout, "{}: {}, {}, {}, {} ({}) in {}, {}\nnext    {}\n", command.to, counted(info.rows, "row"),
        counted(info.name_count, "label"), counted(info.nonzeros, "non-zero"), format_name(info.format),
        counted(info.features, "feature"), counted(info.block_count, "block"), size_text(info.file_bytes),
        next_command(command, info.format));
  return kSuccess;
}

}  // namespace

Command convert_command() {
  auto command = std::make_shared<ConvertCommand>();
  Command self;
  self.name = "convert";
  self.summary = "Write a data file as a compact binary cache, to stream it or to read it faster";
  self.arguments = {
      {"DATA", "Data in any format: a file, '-' for standard input; gzip and zstd are recognised",
       &command->from},
      {"CACHE", "The file to write; it appears whole or not at all", &command->to}};
  command->read.describe(self.table);
  describe_row_weights(self.table, &command->read.row_weights);
  describe_max_rows(self.table, &command->max_rows);
  describe_ngrams(self.table, &command->ngrams.words, &command->ngrams.characters, &command->ngrams.buckets);
  describe_threads(self.table, &command->threads);
  describe_memory_limit(self.table, &command->memory_limit);
  self.table.group("Output");
  self.table.toggle("quiet", &command->quiet, "Print nothing but errors.");
  describe_json(self.table, &command->json, "one object that says what was written.");
  self.example =
      "  truemax generate train.txt --test test.txt --test-rows 1000\n"
      "  truemax convert train.txt train.cache\n"
      "  truemax train train.cache --stream --test test.txt --seconds 2";
  self.given = &command->given;
  self.run = [command] { return run_convert(*command); };
  return self;
}

}  // namespace truemax
