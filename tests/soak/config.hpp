// A random configuration of the soak: a data file, perhaps files of weights, and the options of a run, as
// they would be typed. All of it is a function of a seed and a number.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace truemax::soak {

// Random numbers that do not depend on the standard library.
class Random {
 public:
  Random(std::uint64_t seed, std::uint64_t number);
  std::uint64_t bits();
  std::uint64_t below(std::uint64_t n) { return bits() % n; }
  std::uint64_t between(std::uint64_t low, std::uint64_t high) { return low + below(high - low + 1); }
  double unit() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
  bool chance(double p) { return unit() < p; }
  double log_between(double low, double high);
  template <class T>
  const T& of(const std::vector<T>& values) {
    return values[below(values.size())];
  }

 private:
  std::uint64_t state_;
};

struct Config {
  std::uint64_t seed = 0, number = 0;
  std::string kind;                                          // linear, bag, context, cbow, skipgram, triples
  std::vector<std::pair<std::string, std::string>> options;  // name and value; "on" and "off" for switches
  std::string data;                                          // the data file's path
  std::uint64_t rows = 0;                                    // of the data file, about
  bool moderate = true;                                      // no value is huge or tiny
  bool alike = true;  // nor beside others in a row: dividing rows by their lengths does not change that
  std::uint64_t threads = 1, other_threads = 1;  // of the run, and of the same run that is interrupted
  double interrupted_at = 0.5;                   // share of the steps

  void set(std::string name, std::string value) { options.emplace_back(std::move(name), std::move(value)); }
  void leave_out(const std::string& name);
  std::string value(const std::string& name) const;  // empty if not set
  std::string command() const;                       // truemax train ...
};

// Writes its files into `folder`.
Config make_config(std::uint64_t seed, std::uint64_t number, const std::string& folder);

}  // namespace truemax::soak
