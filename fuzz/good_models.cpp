// Small models of every kind, trained by this build: good seeds of the model loader, each with and without
// its checksums. Without them a change is not refused for its checksum, and reaches the code behind it.
#include <atomic>
#include <cstring>
#include <nlohmann/json.hpp>

#include "target.hpp"
#include "targets.hpp"
#include "train/run.hpp"

namespace truemax::fuzz {
namespace {

using Json = nlohmann::json;

constexpr const char* kRows = "a 1:1 2:0.5\nb 2:1\na 1:2 3:1\nc 3:1\nb 1:1 2:1\n";
constexpr const char* kWords = "__label__a the cat\n__label__b the dog ran\n__label__a a cat\n";
constexpr const char* kText = "the cat sat\nthe dog sat\na cat ran\n";
constexpr const char* kTriples = "a\tr\tb\nb\tr\tc\nc\ts\ta\n";

std::string trained(const char* data, const Json& more) {
  const MemoryFile file(data);
  const std::string path = scratch_folder() + "/trained";
  RunOptions options;
  OptionTable table;
  options.describe(table);
  Json all{{"method", "implicit"}, {"epochs", 1}, {"threads", 1}, {"model", path}, {"log", "none"}};
  all.update(more);
  table.from_json(Json::parse(all.dump()));  // so that whole numbers are unsigned
  options.train_path = file.path();
  options.memory_limit = std::uint64_t{1} << 30;
  PreparedRun run = prepare_run(options);
  const std::atomic<bool> stop{false};
  const FinishedRun finished = execute_run(run, {}, stop);
  if (!finished.saved) broken("a small model is trained and saved");
  return file_bytes(path);
}

std::string without_checksums(const std::string& model) {
  std::uint64_t length = 0;
  std::memcpy(&length, model.data(), sizeof length);
  Json header = Json::parse(model.substr(8, length));
  Json inside = Json::parse(header["__metadata__"]["truemax"].get<std::string>());
  inside.erase("checksums");
  // What is long and nobody checks would take most of the mutations.
  inside["options"] = Json::object();
  header["__metadata__"] = {{"truemax", inside.dump()}};
  const std::string text = header.dump();
  const std::uint64_t size = text.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &size, sizeof size);
  return bytes + text + model.substr(8 + length);
}

}  // namespace

std::vector<std::string> good_models() {
  const Json learnt{{"method", "scent"}, {"hidden", 2}};
  const auto and_learnt = [&](Json more) {
    more.update(learnt);
    return more;
  };
  std::vector<std::string> all;
  const auto add = [&](const char* data, const Json& options) {
    all.push_back(trained(data, options));
    all.push_back(without_checksums(all.back()));
  };
  add(kRows, {{"format", "libsvm"}});
  add(kRows, {{"format", "libsvm"}, {"intercept", true}, {"normalize", "l2"}, {"max-features", 2}});
  add(kRows, {{"format", "libsvm"}, {"hash-features", 4}});
  add(kRows, and_learnt({{"format", "libsvm"}}));
  add(kWords, {{"format", "fasttext"}, {"labels", "all"}});
  add(kWords, {{"format", "fasttext"}, {"hash-features", 4}});
  add(kWords, {{"format", "fasttext"}, {"word-ngrams", 2}, {"ngram-buckets", 50}});
  add(kWords, and_learnt({{"format", "fasttext"}, {"char-ngrams", "2-3"}, {"ngram-buckets", 9}}));
  add(kText, and_learnt({{"format", "text"}, {"encoder", "context"}, {"context", 2}}));
  add(kText, and_learnt({{"format", "text"}, {"encoder", "context"}, {"context", 2}, {"layers", 1}}));
  add(kText, and_learnt({{"format", "text"}, {"encoder", "cbow"}, {"context", 1}}));
  add(kText, and_learnt({{"format", "text"}, {"encoder", "skipgram"}, {"context", 1}}));
  add(kTriples, and_learnt({{"format", "triples"}}));
  return all;
}

}  // namespace truemax::fuzz
