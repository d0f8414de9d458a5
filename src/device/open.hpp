// Which device a run uses, and opening it. The GPU's engine is in libtruemax_cuda.so, which is looked for at
// run time only: beside the program or library that this code is in, in ../lib, and where the system's loader
// looks. TRUEMAX_CUDA_LIBRARY names another one.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/options.hpp"
#include "device/engine.hpp"
#include "device/learnt.hpp"

namespace truemax::device {

enum class Kind { cpu, cuda, automatic };

inline constexpr char kCpu[] = "cpu", kAuto[] = "auto";

// cpu, cuda, cuda:N or auto.
struct Choice {
  Kind kind = Kind::cpu;
  int card = 0;

  static std::optional<Choice> read(std::string_view text);
  static Choice parse(std::string_view text);  // throws UserError
  std::string text() const;
};

// --device, bound to a field that holds one of the texts above. `plain_default`: of 'truemax train DATA', if
// it differs from the field's.
void describe(OptionTable& table, const Place<std::string>& device, std::string plain_default = {});

// What there is of a GPU, without opening it.
struct Found {
  int cards = 0;
  std::string missing;  // what is missing and what to do; empty if there is a card
};
Found find();

// The engine of the choice; null: the CPU. `auto` is the first card if there is one that can be opened, else
// the CPU, and `why` says what was missing. Throws UserError if the choice is a card that is not there.
std::unique_ptr<Engine> open(const Choice& choice, std::string* why = nullptr);
// The same, for learnt features.
std::unique_ptr<LearntEngine> open_learnt(const Choice& choice, std::string* why = nullptr);

}  // namespace truemax::device
