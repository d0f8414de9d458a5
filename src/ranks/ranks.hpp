// Ranks: the processes of one run, each of which owns a part of W (weights/block_share.hpp). An interface
// without a word of MPI. Every rank runs the same program on the same data and calls the functions below in
// the same order; only the thread that runs the program may call them.
//
// Results have the same bits on all ranks, so that what is decided from them is decided alike everywhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace truemax {

// Another rank is gone: nothing that this one does can succeed.
class LostRanks : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class Combine { sum, max };

// Something that all ranks must have in common, in words: "--step", "7". `where`: shown with the value, but
// not compared.
struct Named {
  std::string name, value;
  std::string where = {};
};

// What it took to combine numbers: how often, their bytes, and the bytes that a rank sent for it.
struct Traffic {
  std::uint64_t reductions = 0, combined = 0, sent = 0;

  Traffic& operator+=(const Traffic& b) {
    reductions += b.reductions, combined += b.combined, sent += b.sent;
    return *this;
  }
  Traffic operator-(const Traffic& b) const {
    return {reductions - b.reductions, combined - b.combined, sent - b.sent};
  }
};

// The same for the steps of so many rows.
struct StepTraffic {
  std::uint64_t rows = 0;
  Traffic traffic;
};

class Ranks {
 public:
  Ranks() = default;
  virtual ~Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  virtual std::size_t rank() const = 0;
  virtual std::size_t size() const = 0;
  virtual std::size_t here() const { return size(); }  // on this machine
  bool first() const { return rank() == 0; }           // prints, and owns the files that are written
  bool alone() const { return size() == 1; }
  // Whether this is the program of many ranks, however many it has: what it chooses by itself (groups of
  // rows, and what goes with them) must not depend on their number.
  virtual bool in_groups() const { return true; }

  // Replaces every number by its sum or maximum over all ranks. No number is NaN.
  void combine(Combine how, std::span<float> numbers) { wait(start(how, numbers)); }
  void combine(Combine how, std::span<double> numbers) { wait(start(how, numbers)); }
  template <class T>
  void sum(T&& numbers) {
    combine(Combine::sum, std::span(numbers));
  }
  template <class T>
  void max(T&& numbers) {
    combine(Combine::max, std::span(numbers));
  }
  double sum_of(double number) { return combine(Combine::sum, std::span(&number, 1)), number; }
  double max_of(double number) { return combine(Combine::max, std::span(&number, 1)), number; }

  // The same, begun now and finished by wait(): until then the numbers must not be touched. What was started
  // first is waited for first. At most kMostStarted are under way.
  static constexpr std::size_t kMostStarted = 4;
  using Ticket = std::uint64_t;
  virtual Ticket start(Combine how, std::span<float> numbers) = 0;
  virtual Ticket start(Combine how, std::span<double> numbers) = 0;
  virtual void wait(Ticket ticket) = 0;
  virtual Traffic traffic() const { return {}; }  // so far; not all implementations count

  // Everyone gets the bytes of rank `from`.
  virtual void broadcast(std::span<std::byte> bytes, std::size_t from) = 0;
  template <class T>
  T broadcast_value(T value, std::size_t from = 0) {
    static_assert(std::is_trivially_copyable_v<T>);
    broadcast(std::as_writable_bytes(std::span(&value, 1)), from);
    return value;
  }
  std::string broadcast_text(std::string text, std::size_t from = 0);

  // all: [size][own.size()] in order of ranks; own.size() is equal everywhere.
  virtual void gather_everywhere(std::span<const std::byte> own, std::span<std::byte> all) = 0;

  // From one rank to another, which asks for the same number of bytes. For long streams: pieces of some
  // megabytes.
  virtual void send(std::span<const std::byte> bytes, std::size_t to) = 0;
  virtual void receive(std::span<std::byte> bytes, std::size_t from) = 0;

  virtual void barrier() = 0;

  // Work of rank 0 alone, such as files that are written. A UserError there is one everywhere.
  void only_first(const std::function<void()>& work);
  // Throws UserError everywhere unless all ranks have the same values under the same names. `what`: in words,
  // "options".
  void require_same(const std::string& what, const std::vector<Named>& own);
  // All ranks have agreed to stop: the run ends by itself.
  virtual void agreed_to_stop() {}
};

// A run in one process.
class OneRank final : public Ranks {
 public:
  std::size_t rank() const override { return 0; }
  std::size_t size() const override { return 1; }
  bool in_groups() const override { return false; }
  Ticket start(Combine /*how*/, std::span<float> /*numbers*/) override { return 0; }
  Ticket start(Combine /*how*/, std::span<double> /*numbers*/) override { return 0; }
  void wait(Ticket /*ticket*/) override {}
  void broadcast(std::span<std::byte> /*bytes*/, std::size_t /*from*/) override {}
  void gather_everywhere(std::span<const std::byte> own, std::span<std::byte> all) override;
  void send(std::span<const std::byte> bytes, std::size_t to) override;
  void receive(std::span<std::byte> bytes, std::size_t from) override;
  void barrier() override {}
};

// The ranks of the run of this thread: OneRank, unless a UseRanks is alive in it. The program of many
// machines (src/mpi/) makes one in main(), tests one in each thread that stands for a rank (ThreadRanks). The
// helpers of a thread (core/parallel.hpp, core/team.hpp) must not ask.
Ranks& ranks();

class UseRanks {
 public:
  explicit UseRanks(Ranks& ranks);
  ~UseRanks();
  UseRanks(const UseRanks&) = delete;
  UseRanks& operator=(const UseRanks&) = delete;

 private:
  Ranks* before_;
};

}  // namespace truemax
