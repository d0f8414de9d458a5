// truemax-exchange: what it costs to combine numbers over the ranks of MPI, as the steps of a run do
// (mpi/mpi_ranks.hpp). Prints one line of JSON for each size: seconds of a round of 1, 2, 3 and 4 reductions
// that are under way together, as those of the parts of a group are. bench/two_hosts.py reads it.
#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "mpi/mpi_ranks.hpp"

namespace truemax {
namespace {

// Median seconds of one round of `together` reductions.
double seconds_of(MpiRanks& ranks, std::size_t numbers, std::size_t together, std::size_t repeats) {
  std::vector<std::vector<float>> message(together, std::vector<float>(numbers, 1.0F));
  std::vector<Ranks::Ticket> ticket(together);
  std::vector<double> seconds;
  for (std::size_t r = 0; r < repeats; ++r) {
    for (auto& m : message) std::fill(m.begin(), m.end(), 1.0F);
    ranks.barrier();
    const double begin = MPI_Wtime();
    // As a group does: each part waits for its own message, and sends the next one.
    constexpr std::size_t kRounds = 4;
    for (std::size_t t = 0; t < together; ++t) ticket[t] = ranks.start(Combine::max, std::span(message[t]));
    for (std::size_t round = 0; round < kRounds; ++round)
      for (std::size_t t = 0; t < together; ++t) {
        ranks.wait(ticket[t]);
        if (round + 1 < kRounds) ticket[t] = ranks.start(Combine::max, std::span(message[t]));
      }
    seconds.push_back((MPI_Wtime() - begin) / static_cast<double>(kRounds));
  }
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(repeats / 2),
                   seconds.end());
  return seconds[repeats / 2];
}

void run() {
  MpiRanks ranks;
  constexpr std::array<std::size_t, 6> kSizes{16, 64, 256, 1024, 2048, 4096};
  for (const std::size_t numbers : kSizes) {
    seconds_of(ranks, numbers, 1, 50);  // TCP finds its windows
    std::vector<double> rounds;
    for (std::size_t together = 1; together <= Ranks::kMostStarted; ++together)
      rounds.push_back(seconds_of(ranks, numbers, together, 101));
    if (ranks.first())
      fmt::print("{{\"numbers\": {}, \"rounds\": [{:.4g}]}}\n", numbers, fmt::join(rounds, ", "));
  }
}

}  // namespace
}  // namespace truemax

int main(int argc, char** argv) {
  int provided = 0;
  if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) return EXIT_FAILURE;
  truemax::run();
  MPI_Finalize();
  return EXIT_SUCCESS;
}
