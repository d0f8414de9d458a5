// Models over several ranks, and as sets of files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/error.hpp"
#include "data/test_support.hpp"
#include "model/model.hpp"
#include "model/model_set.hpp"
#include "model/predict.hpp"
#include "model/test_support.hpp"
#include "ranks/thread_ranks.hpp"

namespace truemax {
namespace {

using ::testing::HasSubstr;

enum class Kind { linear, intercept, learnt, vectors_shared_out };
constexpr Kind kKinds[] = {Kind::linear, Kind::intercept, Kind::learnt, Kind::vectors_shared_out};

std::vector<std::string> many_names(std::size_t classes) {
  std::vector<std::string> names = awkward_names();
  while (names.size() < classes) names.push_back("c" + std::to_string(names.size()));
  return names;
}

constexpr std::size_t kClasses = 90, kVectors = 40;

Model whole_model(Kind kind, std::uint64_t seed = 1) {
  Model model = random_model(seed, {6, kind != Kind::linear, false, many_names(kClasses)});
  if (kind == Kind::linear || kind == Kind::intercept) return model;
  model.encoder.features = Embedding(kVectors, 6);
  fill_normal(model.encoder.features, 1.0, seed, 0, 1);
  auto space = std::make_shared<FeatureSpace>(*model.space);
  space->features = kVectors, space->file_features = kVectors;
  model.space = space;
  return model;
}

// What a rank has of it.
Model part_of(const Model& whole, Kind kind) {
  Model own;
  own.classes = whole.classes, own.space = whole.space, own.preprocess = whole.preprocess;
  own.method = whole.method, own.options = whole.options, own.data = whole.data;
  const auto share = share_of(*whole.classes);
  const std::size_t columns = whole.weights.features();
  own.weights =
      Weights(share ? share->classes() : whole.weights.classes(), columns, whole.weights.has_intercept());
  own.weights.set_share(share);
  std::vector<float> row(columns);
  for (ClassId k = 0; k < whole.classes->size(); ++k)
    if (const auto here = own_number(own.weights, k)) {
      whole.weights.copy_class(k, row);
      own.weights.set_class(*here, row);
      if (own.weights.has_intercept()) own.weights.intercept()[*here] = whole.weights.intercept()[k];
    }
  own.encoder.features = whole.encoder.features;
  if (kind != Kind::vectors_shared_out || ranks().alone()) return own;
  const std::vector<double> mass(kVectors, 1.0);
  const auto vectors = std::make_shared<const BlockShare>(mass, ranks().rank(), ranks().size());
  own.encoder.share = vectors;
  own.encoder.features = Embedding(vectors->classes(), columns);
  for (ClassId v = 0; v < vectors->classes(); ++v)
    std::copy_n(whole.encoder.features.row(vectors->global_class(v)), columns, own.encoder.features.row(v));
  return own;
}

void expect_same_part(const Model& loaded, const Model& whole) {
  const Model expected = part_of(whole, Kind::learnt);
  EXPECT_EQ(loaded.classes->names(), whole.classes->names());
  ASSERT_EQ(loaded.weights.classes(), expected.weights.classes());
  std::vector<float> here(expected.weights.features()), there(expected.weights.features());
  for (ClassId k = 0; k < expected.weights.classes(); ++k) {
    loaded.weights.copy_class(k, here);
    expected.weights.copy_class(k, there);
    EXPECT_EQ(here, there);
  }
  EXPECT_TRUE(std::ranges::equal(loaded.weights.intercept(), expected.weights.intercept()));
  EXPECT_TRUE(loaded.encoder.features.numbers == whole.encoder.features.numbers);
  EXPECT_EQ(model_metadata(loaded), model_metadata(whole));
}

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

class RanksModel : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Sizes, RanksModel, testing::Values(1, 2, 3, 4));

TEST_P(RanksModel, OneFileHasTheBytesThatOneProcessWrites) {
  for (const Kind kind : kKinds) {
    const TempFolder folder;
    const Model whole = whole_model(kind);
    save_model(whole, folder.path("one"));
    run_thread_ranks(GetParam(), [&](Ranks&) { save_model(part_of(whole, kind), folder.path("many")); });
    EXPECT_TRUE(read_bytes(folder.path("many")) == read_bytes(folder.path("one")));
  }
}

TEST_P(RanksModel, EachRankLoadsItsOwnClassesOfEitherForm) {
  for (const Kind kind : kKinds)
    for (const std::size_t written_by : {1, 3})
      for (const ModelForm form : {ModelForm::one_file, ModelForm::set}) {
        const TempFolder folder;
        const Model whole = whole_model(kind);
        const std::string path = folder.path("m.safetensors");
        run_thread_ranks(written_by, [&](Ranks&) { save_model(part_of(whole, kind), path, form); });
        EXPECT_EQ(std::filesystem::exists(path), form == ModelForm::one_file);
        run_thread_ranks(GetParam(),
                         [&](Ranks&) { expect_same_part(load_model(path, kAnyMemory, 2), whole); });
        if (form == ModelForm::set) {
          expect_same_part(load_model(index_name(path), kAnyMemory), whole);
          const nlohmann::json meta = read_model_metadata(path);
          EXPECT_EQ(meta["parts"].size(), written_by);
          EXPECT_EQ(meta["classes"].size(), kClasses);
        }
      }
}

TEST_P(RanksModel, PredictionsAreThoseOfOneProcess) {
  const TempFolder folder;
  const Model whole = whole_model(Kind::intercept);
  save_model(whole, folder.path("m"));
  Csr rows;
  for (std::uint32_t r = 0; r < 30; ++r) {
    for (FeatureId f = r % 3; f < 6; f += 2)
      rows.index.push_back(f), rows.value.push_back(0.3F * static_cast<float>(r % 7) - 1);
    rows.begin.push_back(rows.index.size());
  }
  const Predictions expected = Predictor(whole, 7, 1).predict(rows.view());
  run_thread_ranks(GetParam(), [&](Ranks&) {
    const Model own = load_model(folder.path("m"), kAnyMemory);
    const Predictions got = Predictor(own, 7, 1).predict(rows.view());
    EXPECT_EQ(got.classes, expected.classes);
    for (std::size_t i = 0; i < expected.probability.size(); ++i)
      EXPECT_NEAR(got.probability[i], expected.probability[i], 1e-12);
  });
}

// A set of files is replaced whole, whatever was there before.
TEST(ModelSet, ReplacesAnOlderModelAndLeavesNothingBehind) {
  const TempFolder folder;
  const std::string path = folder.path("m.safetensors");
  save_model(whole_model(Kind::learnt, 1), folder.path("m-2.safetensors"),
             ModelForm::set);  // of another name
  const std::vector<std::string> others = files_in(folder.path(""));
  std::uint64_t seed = 1;
  for (const std::size_t ranks : {1, 2, 2, 3, 1, 2}) {
    const ModelForm form = seed == 4 ? ModelForm::one_file : ModelForm::set;
    const Model whole = whole_model(Kind::learnt, ++seed);
    run_thread_ranks(ranks, [&](Ranks&) { save_model(part_of(whole, Kind::learnt), path, form); });
    expect_same_part(load_model(path, kAnyMemory), whole);
    EXPECT_EQ(files_in(folder.path("")).size(), others.size() + (form == ModelForm::set ? ranks + 1 : 1));
  }
}

TEST(ModelSet, AFailureLeavesTheOlderModelAndNoParts) {
  for (const ModelForm older : {ModelForm::one_file, ModelForm::set}) {
    const TempFolder folder;
    const std::string path = folder.path("m.safetensors");
    const Model old = whole_model(Kind::intercept, 1);
    run_thread_ranks(2, [&](Ranks&) { save_model(part_of(old, Kind::intercept), path, older); });
    const std::vector<std::string> before = files_in(folder.path(""));
    // The index of the new set cannot be seen to be right: rank 1 writes elsewhere.
    const Model next = whole_model(Kind::intercept, 2);
    std::filesystem::create_directory(folder.path("elsewhere"));
    run_thread_ranks(2, [&](Ranks& ranks) {
      const std::string here = ranks.first() ? path : folder.path("elsewhere/m.safetensors");
      EXPECT_THAT(error_of([&] { save_model(part_of(next, Kind::intercept), here, ModelForm::set); }),
                  HasSubstr("a folder that all machines share"));
    });
    EXPECT_TRUE(std::filesystem::remove(folder.path("elsewhere")));  // it is empty
    EXPECT_EQ(files_in(folder.path("")), before);
    expect_same_part(load_model(path, kAnyMemory), old);
    // A rank that cannot write at all.
    run_thread_ranks(2, [&](Ranks& ranks) {
      const std::string here = ranks.first() ? path : folder.path("no/such/m.safetensors");
      for (const ModelForm form : {ModelForm::set, ModelForm::one_file})
        if (form == ModelForm::set) {
          EXPECT_NE(error_of([&] { save_model(part_of(next, Kind::intercept), here, form); }), "");
        }
    });
    EXPECT_EQ(files_in(folder.path("")), before);
    run_thread_ranks(3, [&](Ranks&) {
      EXPECT_NE(error_of([&] { save_model(part_of(next, Kind::intercept), folder.path("no/such/m")); }), "");
    });
  }
}

TEST(ModelSet, MissingAndMixedPartsAreRefusedWithWhatToDo) {
  const TempFolder folder;
  const std::string path = folder.path("m.safetensors"), other = folder.path("o.safetensors");
  for (const auto& [name, seed] : {std::pair(path, 1U), std::pair(other, 2U)})
    run_thread_ranks(3, [&, file = name, number = seed](Ranks&) {
      save_model(part_of(whole_model(Kind::intercept, number), Kind::intercept), file, ModelForm::set);
    });
  const std::string second = part_name(path, 2, 3, 1), kept = read_bytes(second);
  std::filesystem::remove(second);
  const auto error = [&](std::size_t ranks) {
    std::string text;
    run_thread_ranks(ranks, [&](Ranks& all) {
      const std::string own = error_of([&] { load_model(path, kAnyMemory); });
      if (all.first()) text = own;
    });
    return text;
  };
  for (const std::size_t ranks : {1, 2}) {
    EXPECT_THAT(error(ranks), HasSubstr("m-00002-of-00003.safetensors, part 2 of 3, is missing"));
    EXPECT_THAT(error(ranks), HasSubstr("copy all files of the set"));
  }
  std::filesystem::copy_file(part_name(other, 2, 3, 1), second);
  for (const std::size_t ranks : {1, 2}) EXPECT_THAT(error(ranks), HasSubstr("of another model, or damaged"));
  std::ofstream(second, std::ios::binary | std::ios::trunc) << kept;
  EXPECT_EQ(error(2), "");
}

TEST(ModelSet, EveryChangedBitIsFound) {
  const TempFolder folder;
  const std::string path = folder.path("m.safetensors");
  const Model whole = random_model(1, {2, true, true, {"a", "b\x1f", "c\"\\", "\xc3\xa9"}});
  save_model(whole, path, ModelForm::set);
  for (const std::string& file : {index_name(path), part_name(path, 1, 1, 1)}) {
    const std::string good = read_bytes(file);
    for (std::size_t at = 0; at < good.size(); ++at) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << (at % 8)));
      std::ofstream(file, std::ios::binary | std::ios::trunc) << bad;
      EXPECT_NE(error_of([&] { load_model(path, kAnyMemory); }), "") << file << " " << at;
    }
    std::ofstream(file, std::ios::binary | std::ios::trunc) << good;
    for (const std::size_t length : {std::size_t{0}, good.size() / 2, good.size() - 1}) {
      std::ofstream(file, std::ios::binary | std::ios::trunc) << good.substr(0, length);
      EXPECT_NE(error_of([&] { load_model(path, kAnyMemory); }), "") << file << " " << length;
    }
    std::ofstream(file, std::ios::binary | std::ios::trunc) << good;
  }
  EXPECT_EQ(error_of([&] { load_model(path, kAnyMemory); }), "");
}

TEST(RanksModel, ADamagedRowIsFoundByAllRanks) {
  const TempFolder folder;
  const Model whole = whole_model(Kind::intercept);
  save_model(whole, folder.path("m"));
  std::string bytes = read_bytes(folder.path("m"));
  bytes[bytes.size() - 2000] = static_cast<char>(bytes[bytes.size() - 2000] ^ 1);
  std::ofstream(folder.path("m"), std::ios::binary | std::ios::trunc) << bytes;
  run_thread_ranks(3, [&](Ranks&) {
    EXPECT_THAT(error_of([&] { load_model(folder.path("m"), kAnyMemory); }), HasSubstr("checksum"));
  });
}

TEST(RanksModel, MemoryIsThatOfOneRank) {
  const TempFolder folder;
  save_model(whole_model(Kind::linear), folder.path("m"));
  const std::uint64_t each = Weights::bytes_needed(BlockShare::most_classes(kClasses, 3), 6);
  EXPECT_THROW(load_model(folder.path("m"), each), UserError);
  run_thread_ranks(3, [&](Ranks&) {
    EXPECT_EQ(error_of([&] { load_model(folder.path("m"), each); }), "");
    EXPECT_THAT(error_of([&] { load_model(folder.path("m"), each - 1); }), HasSubstr("on each of 3 ranks"));
  });
}

}  // namespace
}  // namespace truemax
