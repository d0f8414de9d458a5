// What trials will do, told before they begin: what they look for, from which values, on which rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/plan.hpp"

namespace truemax {

// At least and at most.
struct Span {
  double low = 0, high = 0;

  Span& operator+=(const Span& other) { return low += other.low, high += other.high, *this; }
  friend Span operator+(Span a, const Span& b) { return a += b; }
  friend Span operator*(double times, const Span& a) { return {times * a.low, times * a.high}; }
};

// An option that trials find: they start with `from` and multiply or divide it by `factor` (the first moves
// by `first_factor`, if there are such). factor 0: they try `from` and the other end of the range.
struct SoughtValue {
  std::string name;
  double from = 0, factor = 0, first_factor = 0;
  Span range;
};

struct Outlook {
  std::string about;     // of which model, if trials compare two
  std::string why_none;  // nothing is tried; the values are those that trials would start from
  std::vector<SoughtValue> values;
  double rows = 0, of_rows = 0;  // of the first trials; of those that trials may use
  double judges = 0;             // rows that a trial is judged on, at most
  std::string judges_are;        // "held-out rows"
  Span count, seconds;           // of all trials
  Span epochs;                   // of the fit that follows
  Span hidden;                   // and its learnt features
};

// In the order in which they are run. Empty: nothing is sought.
std::vector<Outlook> outlook_of(const Plan& plan);

}  // namespace truemax
