// truemax index
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "cli/progress.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "core/row_encoder.hpp"
#include "core/text.hpp"
#include "index/predict.hpp"
#include "model/use.hpp"

namespace truemax {
namespace {

struct IndexCommand {
  UseOptions use;
  std::string out;
  IndexOptions index;
  double recall = kUsualRecall;
  std::uint64_t top = 5;
  bool json = false;
};

// "out/m.safetensors": "out/m.index".
std::string index_beside(const std::string& model) {
  constexpr std::string_view kOfSet = ".index.json";
  const bool set = model.ends_with(kOfSet);
  return std::filesystem::path(set ? model.substr(0, model.size() - kOfSet.size()) : model)
      .replace_extension(".index")
      .string();
}

// An older index is replaced; anything else is somebody's file.
void require_index_or_nothing(const std::string& out, const IndexCommand& command) {
  if (out == "-") throw UserError("--out is the name of a file, not '-'; give a name");
  if (same_file(out, command.use.model_path))
    throw UserError(fmt::format("--out {}: this is the model; give another name", out));
  std::error_code error;
  if (std::filesystem::exists(std::filesystem::symlink_status(out, error)) && !is_index_file(out))
    throw UserError(fmt::format("--out {}: this file exists and is not an index; give another name", out));
  require_writable(out, 0, "out");
}

void require_index_memory(const ClassVectors& vectors, const IndexOptions& options, const UseOptions& use) {
  const std::uint64_t needed =
      index_building_bytes(vectors.classes(), vectors.features(), options, use.thread_count());
  if (needed <= use.memory_there()) return;
  throw UserError(
      fmt::format("{}: not enough memory: an index of {} classes x {} features needs {}, {} available; use a "
                  "larger machine, or raise --memory-limit to try anyway",
                  use.model_path, vectors.classes(), vectors.features(), size_text(needed),
                  size_text(use.memory_there())));
}

// Some of the user's rows, as the weights want them.
Csr sample_of(const IndexCommand& command, const Model& model) {
  constexpr std::uint64_t kRead = 16384;
  Csr sample;
  UseOptions use = command.use;
  use.max_rows = use.max_rows == 0 ? kRead : std::min(use.max_rows, kRead);
  Csr all;
  print_notes(each_batch(model, use.data_path, use, kRead, [&](CsrView rows) {
    for (std::size_t r = 0; r < rows.rows(); ++r) all.add(rows.row(r));
  }));
  Csr some = some_rows(all.view(), kRecallRows);
  if (model.encoder.empty()) return some;
  try {
    encode_rows(*make_row_encoder(model.space->encoder, model.encoder), some.view(), sample,
                command.use.thread_count());
  } catch (const RowBeyondFloat& error) {
    throw error.named(fmt::format("{}: row {}", command.use.data_path,
                                  place_of_some(error.row(), kRecallRows, all.rows()) + 1));
  }
  return sample;
}

void print_result(const IndexCommand& command, const std::string& out, const ClassIndex& index,
                  EncoderKind encoder, double seconds) {
  const IndexEffort& effort = index.effort;
  if (command.json) {
    nlohmann::ordered_json json{
        {"path", out}, {"cells", index.cells()}, {"bytes", index.bytes()}, {"seconds", seconds}};
    if (effort.probes > 0) json.update(effort.to_json());
    return print_json(json);
  }
  say(stdout, "index   {}: {} classes in {}, {}, {:.1f} s\n", printable(out), index.mark.classes,
      counted(index.cells(), "cell"), size_text(index.bytes()), seconds);
  if (effort.probes == 0) {
    say(stdout, "effort  not known: 'truemax predict --index' chooses it on its first rows\n");
  } else {
    say(stdout, "effort  {} of {} a row\n", effort.probes, counted(index.cells(), "cell"));
    say(stdout, "recall  {:.4f} +- {:.4f} of the best {}, {} searched exactly\n", effort.recall, effort.error,
        effort.top, counted(effort.rows, "row"));
    if (effort.recall < 1 && (command.recall == 1 || effort.probes == index.cells()))
      say(stdout, "note    an index rounds scores: only search without one finds all\n");
    else if (effort.recall + effort.error < command.recall)
      say(stdout, "note    that is less than --recall {:g}; a higher --recall looks into more cells\n",
          command.recall);
    else if (2 * effort.probes > index.cells() && index.cells() > 1)
      say(stdout,
          "note    rows look into most cells: these classes are not alike in groups, so the index saves "
          "little; a lower --recall saves more\n");
  }
  if (encoder == EncoderKind::cbow) return;  // predict refuses such models
  say(stdout, "next    truemax predict {} DATA --index {} --top {}\n", shell_word(command.use.model_path),
      shell_word(out), std::min<std::uint64_t>(command.top, index.mark.classes));
}

int run_index(const IndexCommand& command) {
  const UseOptions& use = command.use;
  if (is_index_file(use.model_path))
    throw UserError(fmt::format("{}: this is an index of a model, not a model; give the model it was made of",
                                use.model_path));
  const std::string out = command.out.empty() ? index_beside(use.model_path) : command.out;
  require_index_or_nothing(out, command);
  const DropClaimsOnSignal claims;  // a signal may come while the model is read
  const Claim claim = claim_output(out, "out");
  const auto start = std::chrono::steady_clock::now();
  const ModelOnDisk opened = open_model(use.model_path, use.memory_there(), use.thread_count());
  const auto vectors = vectors_on_disk(*opened.weights);
  require_index_memory(*vectors, command.index, use);
  const Csr sample = use.data_path.empty() ? Csr() : sample_of(command, opened.model);

  const StopOnSignal signals;
  ProgressLine line;
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  IndexWork work;
  work.threads = use.thread_count();
  work.stop = &StopOnSignal::flag();
  if (ProgressLine::wanted())
    work.watch = [&](double share) {
      if (!line.due() || share <= 0) return;
      line.show(fmt::format("indexing {} classes/s  {:3.0f}%  {} left",
                            rate_text(share * static_cast<double>(vectors->classes()) / seconds()),
                            100 * share, clock_text(seconds() / share * (1 - share))));
    };
  ClassIndex index = build_index(*vectors, *opened.model.classes, sample.view(), command.index, work);
  line.clear();
  if (index.cells() > 0 && sample.rows() > 0 && !work.ended()) {
    if (ProgressLine::wanted()) line.show(fmt::format("searching {} rows exactly", sample.rows()));
    index.effort = find_effort(IndexSearch(index, *vectors, *opened.model.classes), sample.view(),
                               command.top, command.recall, work.threads);
    line.clear();
  }
  if (work.ended()) {
    say(stderr, "truemax: stopped; {} was not written\n", printable(out));
    return StopOnSignal::exit_code();
  }
  index.effort.target = command.recall;
  save_index(index, out);
  print_result(command, out, index, opened.model.space->encoder, seconds());
  return kSuccess;
}

}  // namespace

Command index_command() {
  auto command = std::make_shared<IndexCommand>();
  Command self;
  self.name = "index";
  self.summary = "An index of a model's classes, with which predict need not score all of them";
  self.arguments = {{"MODEL", "Model file", &command->use.model_path}};
  self.table.group("Index");
  self.table.text("out", "FILE", &command->out, "File for the index. Default: MODEL with the ending .index.");
  self.table.text(
      "rows", "FILE", &command->use.data_path,
      "Rows like those to predict, with or without labels. They tell which differences of classes "
      "matter, and some of them, searched exactly too, how many cells a row must look into. Without "
      "them 'predict --index' chooses that on its first rows.");
  self.table.number("recall", &command->recall, {0, 1, true},
                    "The share of the best classes of each of these rows that must be found.");
  self.table.count("top", &command->top, {1, 4e9}, "Which are the best: so many classes of each row.");
  command->index.describe(self.table);
  command->use.describe_data(self.table);
  describe_memory_limit(self.table, &command->use.memory_limit);
  describe_json(self.table, &command->json, "one object.");
  self.example =
      "  truemax index model.safetensors --rows test.txt\n"
      "  truemax predict model.safetensors test.txt --index model.index --top 5";
  self.over_ranks = OverRanks::refused;
  self.run = [command] { return run_index(*command); };
  return self;
}

}  // namespace truemax
