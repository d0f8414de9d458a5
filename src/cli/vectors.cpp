// truemax vectors
#include "model/vectors.hpp"

#include <cerrno>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "core/error.hpp"
#include "core/files.hpp"
#include "core/parallel.hpp"
#include "core/text.hpp"
#include "data/options.hpp"

namespace truemax {
namespace {

struct VectorsCommand {
  std::string model_path, out;
  VectorsOf of = VectorsOf::words;
  std::uint64_t threads = 0, memory_limit = 0;
  bool json = false;
};

void require_vectors_file(const VectorsCommand& command) {
  const std::string& out = command.out;
  if (command.json && out == "-")
    throw UserError("--json: the vectors go to standard output; name a file for them, or leave --json out");
  if (out == "-") return;
  for (const char* ending : {".gz", ".zst"})
    if (out.size() > std::strlen(ending) && out.ends_with(ending))
      throw UserError(fmt::format(
          "{}: vectors are written as plain text; pack them outside, as in: truemax vectors {} - | {} > {}",
          out, shell_word(command.model_path), ending == std::string_view(".gz") ? "gzip" : "zstd",
          shell_word(out)));
  if (is_stream(out)) return;
  if (same_file(out, command.model_path))
    throw UserError(fmt::format("{}: this is the model; give another name for the vectors", out));
  require_writable(out, 0, "");
}

// A pipe, a device or standard output. False if stopped.
bool stream_vectors(const NamedVectors& vectors, const std::string& path) {
  const auto close = [](std::FILE* file) { std::fclose(file); };
  std::unique_ptr<std::FILE, decltype(close)> owned(path == "-" ? nullptr : std::fopen(path.c_str(), "we"),
                                                    close);
  const auto fail = [&] {
    throw file_error(path == "-" ? "standard output" : path, 0,
                     fmt::format("cannot be written ({})", std::strerror(errno)),
                     "check the path and the space on the disk");
  };
  if (path != "-" && !owned) fail();
  std::FILE* const file = owned ? owned.get() : stdout;
  const auto sink = [&](std::string_view text) {
    if (std::fwrite(text.data(), 1, text.size(), file) != text.size()) fail();
  };
  const bool whole = write_vectors(vectors, sink, StopOnSignal::flag());
  if (std::fflush(file) != 0) fail();
  return whole;
}

bool save_vectors(const NamedVectors& vectors, const std::string& path) {
  if (path == "-" || is_stream(path)) return stream_vectors(vectors, path);
  AtomicFile file(path);
  std::uint64_t at = 0;
  const auto sink = [&](std::string_view text) {
    file.write_at(at, text);
    at += text.size();
  };
  if (!write_vectors(vectors, sink, StopOnSignal::flag())) return false;
  file.commit();
  return true;
}

int run_vectors(const VectorsCommand& command) {
  require_vectors_file(command);
  const Model model = load_learnt_model(command.model_path,
                                        command.memory_limit == 0 ? available_memory() : command.memory_limit,
                                        resolve_threads(command.threads));
  const NamedVectors vectors(model, command.of);
  const StopOnSignal signals;
  if (!save_vectors(vectors, command.out)) {
    say(stderr, "truemax: stopped; {} was not written\n", printable(command.out));
    return StopOnSignal::exit_code();
  }
  const std::size_t ngrams = command.of == VectorsOf::words ? model.space->buckets.size() : 0;
  if (ngrams > 0)
    print_notes({fmt::format("{} of n-grams have no words and are not among them; --of ngrams writes those",
                             counted(ngrams, "vector"))});
  if (command.json)
    print_json({{"path", command.out}, {"vectors", vectors.size()}, {"columns", vectors.columns()}});
  else
    say(command.out == "-" ? stderr : stdout, "{}: {} of {} numbers\n", printable(command.out),
        counted(vectors.size(), "vector"), vectors.columns());
  return kSuccess;
}

}  // namespace

Command vectors_command() {
  auto command = std::make_shared<VectorsCommand>();
  Command self;
  self.name = "vectors";
  self.summary = "Write the learnt vectors of words or classes in word2vec text format";
  self.arguments = {{"MODEL", "Model file, trained with --hidden", &command->model_path},
                    {"OUT", "File for the vectors; '-' for standard output", &command->out}};
  self.table.group("Output");
  self.table.choice(
      "of", &command->of,
      {{"words", VectorsOf::words}, {"ngrams", VectorsOf::ngrams}, {"classes", VectorsOf::classes}},
      "Whose vectors: those of words (of features by number from 0 where the data have no words), of n-grams "
      "by their bucket, or of classes.");
  describe_threads(self.table, &command->threads);
  describe_memory_limit(self.table, &command->memory_limit);
  describe_json(self.table, &command->json, "one object: the file, its vectors and their columns.");
  self.example =
      "  truemax generate text.txt --format fasttext --rows 2000\n"
      "  truemax train text.txt --hidden 16 --seconds 1 --model words.safetensors\n"
      "  truemax vectors words.safetensors words.vec\n"
      "  truemax vectors words.safetensors classes.vec --of classes";
  self.run = [command] { return run_vectors(*command); };
  return self;
}

}  // namespace truemax
