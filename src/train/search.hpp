// What nothing was said of and the data do not tell (Sought) is found by short trials, judged on rows that
// the trial did not train on (with --target train, on training rows). The number and length of trials follow
// from counted work, even with --seconds, so the same data and options give the same choices.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "train/machine.hpp"
#include "train/observer.hpp"
#include "train/problem.hpp"
#include "train/recipe.hpp"
#include "train/stopwatch.hpp"

namespace truemax {

struct SearchResult {
  bool finished = false;     // false if `stop` was raised
  std::uint64_t trials = 0;  // that were evaluated
  // Was tried: the recipe holds the best so far.
  bool step = false, ridge = false, epochs = false, layers = false, tied = false, dropout = false;
  double log_loss = 0;  // the best of the last kind of trials
  bool found() const { return step || ridge || epochs || layers || tied || dropout; }
  // If linear and learnt features were compared: their log-losses on the same rows, trained on the same part.
  struct Compared {
    double linear, learnt;
    std::uint64_t hidden;  // of the best learnt ones
    // Learnt features cost more, and a smaller gain is noise of the judges.
    bool learnt_wins() const { return learnt < linear * (1 - 0.002); }
  };
  std::optional<Compared> compared;
};

// What every search needs besides the recipe.
struct SearchTools {
  const TrainSets& sets;
  const Problem& problem;
  const Machine& machine;
  const Stopwatch& watch;                     // training time; keeps running
  std::span<TrainObserver* const> observers;  // see every trial
  const std::atomic<bool>& stop;
  Weights* spare = nullptr;                 // receives the memory of the trials for the fit to reuse
  std::span<const SearchTrial> known = {};  // finished in an earlier process: not run again
};

// The recipe with what was found in place of what was sought; after a stop, with the best so far.
struct Found {
  Recipe recipe;
  SearchResult search;
};
// Trials are evaluated on `sets.valid`, or without it on a share of the training rows (not copied).
Found search(const Recipe& recipe, const SearchTools& tools);

// Its parts; tools.spare is not null.
Found search_linear(const Recipe& recipe, const SearchTools& tools);
// The ridge of Newton's method, which Recipe::newton asks for.
Found search_newton(const Recipe& recipe, const SearchTools& tools);
// A linear run that learnt features must beat, and how many trials found it.
struct LinearRival {
  const Recipe& recipe;
  std::uint64_t trials;
};
// Without a rival, the recipe is the best found. With one, it is so only if it beats that; else the search
// ends early, and SearchResult::compared says that linear is better.
Found search_learnt(const Recipe& recipe, const SearchTools& tools, const LinearRival* rival = nullptr);

}  // namespace truemax
