// How many rows of a group each thread solves: more, the faster it is. Cores of one machine differ, because
// of what else runs on them, and all threads wait for the slowest.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

namespace truemax {

class RowShares {
 public:
  // Equal ones.
  explicit RowShares(std::size_t members);

  struct Share {
    std::size_t first, count;  // rows of a group
  };
  // Shares follow each other, and have all rows of the group.
  Share of(std::size_t rows, std::size_t member) const;
  // Rows that a thread may have, of a group of so many.
  static std::size_t most_of_one(std::size_t members, std::size_t rows);
  // Rows that all have memory for together, if they are no more than so many threads.
  static std::size_t most_of_all(std::size_t members, std::size_t rows);

  // A thread has solved so many rows in this time; threads may call it side by side.
  void solved(std::size_t member, std::size_t rows, std::chrono::nanoseconds time);
  // Between batches: what was solved since the last call decides about the shares from now on.
  void adapt();

 private:
  struct alignas(64) Member {
    double rows = 0, seconds = 0;  // since the last adapt()
    double speed = 0;              // rows a second; 0: not known
  };
  std::vector<Member> members_;
  std::vector<double> begin_;  // by member, of all rows; and 1
};

}  // namespace truemax
