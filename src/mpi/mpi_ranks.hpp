// Ranks over MPI. Numbers are combined in pairs of ranks, 1, 2, 4, ... apart: both partners add the same two
// numbers, so that all ranks end with the same bits, which MPI_Allreduce does not promise. The first exchange
// is under way from start() to wait().
#pragma once

#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "ranks/combine.hpp"
#include "ranks/ranks.hpp"

namespace truemax {

class MpiRanks final : public Ranks {
 public:
  // MPI is initialised, and finalised after this object ends.
  explicit MpiRanks(MPI_Comm from = MPI_COMM_WORLD) {
    require(MPI_Comm_dup(from, &all_));
    require(MPI_Comm_set_errhandler(all_, MPI_ERRORS_RETURN));
    require(MPI_Comm_dup(all_, &end_));  // inherits the handler
    int number = 0;
    require(MPI_Comm_rank(all_, &number));
    rank_ = static_cast<std::size_t>(number);
    require(MPI_Comm_size(all_, &number));
    size_ = static_cast<std::size_t>(number);
    paired_ = std::bit_floor(size_);
    MPI_Comm machine = MPI_COMM_NULL;
    require(MPI_Comm_split_type(all_, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine));
    require(MPI_Comm_size(machine, &number));
    here_ = static_cast<std::size_t>(number);
    require(MPI_Comm_free(&machine));
    constexpr int kSpins = 1000;  // some tens of microseconds
    spins_ = here_ > std::thread::hardware_concurrency() ? 0 : kSpins;
  }
  ~MpiRanks() override {
    MPI_Comm_free(&end_);
    MPI_Comm_free(&all_);
  }

  std::size_t rank() const override { return rank_; }
  std::size_t size() const override { return size_; }
  std::size_t here() const override { return here_; }
  Ticket start(Combine how, std::span<float> numbers) override { return start_any(how, numbers); }
  Ticket start(Combine how, std::span<double> numbers) override { return start_any(how, numbers); }

  void wait(Ticket ticket) override {
    Started& s = slot(ticket);
    if (s.in_double)
      finish<double>(s);
    else
      finish<float>(s);
  }

  Traffic traffic() const override { return traffic_; }

  void broadcast(std::span<std::byte> bytes, std::size_t from) override {
    each_piece(bytes.size(), [&](std::size_t at, int size) {
      finish_call([&](MPI_Request* r) {
        return MPI_Ibcast(bytes.data() + at, size, MPI_BYTE, static_cast<int>(from), all_, r);
      });
    });
  }

  void gather_everywhere(std::span<const std::byte> own, std::span<std::byte> all) override {
    const int size = static_cast<int>(own.size());
    finish_call([&](MPI_Request* r) {
      return MPI_Iallgather(own.data(), size, MPI_BYTE, all.data(), size, MPI_BYTE, all_, r);
    });
  }

  void send(std::span<const std::byte> bytes, std::size_t to) override {
    each_piece(bytes.size(), [&](std::size_t at, int size) {
      finish_call([&](MPI_Request* r) {
        return MPI_Isend(bytes.data() + at, size, MPI_BYTE, static_cast<int>(to), kMessages, all_, r);
      });
    });
  }

  void receive(std::span<std::byte> bytes, std::size_t from) override {
    each_piece(bytes.size(), [&](std::size_t at, int size) {
      finish_call([&](MPI_Request* r) {
        return MPI_Irecv(bytes.data() + at, size, MPI_BYTE, static_cast<int>(from), kMessages, all_, r);
      });
    });
  }

  void barrier() override {
    finish_call([&](MPI_Request* r) { return MPI_Ibarrier(all_, r); });
  }

  // MPI has failed: another rank is gone.
  bool lost() const { return lost_; }
  // For a thread that watches: the ranks have agreed to stop, so that none is gone.
  void agreed_to_stop() override { stopping_.store(true); }
  bool stopping() const { return stopping_.load(); }
  std::uint64_t messages() const { return messages_.load(std::memory_order_relaxed); }  // that came so far

  // Whether all ranks have called this within so many seconds. Others may wait for a message of another kind.
  bool all_arrive(double seconds) {
    MPI_Request request = MPI_REQUEST_NULL;
    if (MPI_Ibarrier(end_, &request) != MPI_SUCCESS) return false;
    const double end = MPI_Wtime() + seconds;
    for (int done = 0; MPI_Wtime() < end;) {
      if (MPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
      if (done != 0) return true;
      sched_yield();
    }
    return false;
  }

 private:
  static constexpr int kNumbers = 1, kMessages = 2;  // tags
  // Larger arrays are cut into a part for each rank to add up, which costs less traffic than pairs do.
  static constexpr std::size_t kMostPaired = std::size_t{1} << 18;  // bytes

  struct Started {
    Combine how = Combine::sum;
    bool in_double = false;
    void* numbers = nullptr;
    std::size_t count = 0;
    std::vector<std::byte> arriving;
    std::array<MPI_Request, 2> request{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  };

  void require(int status) {
    if (status == MPI_SUCCESS) return;
    lost_ = true;
    std::array<char, MPI_MAX_ERROR_STRING> text{};
    int length = 0;
    MPI_Error_string(status, text.data(), &length);
    throw LostRanks("MPI cannot reach the other ranks: " +
                    std::string(text.data(), static_cast<std::size_t>(length)));
  }

  template <class Piece>
  static void each_piece(std::size_t bytes, Piece&& piece) {
    constexpr std::size_t kMost = std::size_t{1} << 30;  // MPI counts in int
    for (std::size_t at = 0; at < bytes; at += kMost)
      piece(at, static_cast<int>(std::min(kMost, bytes - at)));
  }

  Started& slot(Ticket ticket) { return started_[ticket % kMostStarted]; }
  std::size_t extra() const { return size_ - paired_; }  // ranks beyond a power of two
  bool has_extra() const { return rank_ < extra(); }
  bool is_extra() const { return rank_ >= paired_; }

  template <class Real>
  std::span<Real> numbers_of(const Started& s) const {
    return {static_cast<Real*>(s.numbers), s.count};
  }

  void begin_send(Started& s, std::size_t bytes, std::size_t to) {
    traffic_.sent += bytes;
    require(MPI_Isend(s.numbers, static_cast<int>(bytes), MPI_BYTE, static_cast<int>(to), kNumbers, all_,
                      &s.request[0]));
  }
  void begin_receive(Started& s, void* into, std::size_t bytes, std::size_t from) {
    require(MPI_Irecv(into, static_cast<int>(bytes), MPI_BYTE, static_cast<int>(from), kNumbers, all_,
                      &s.request[1]));
  }
  void begin_exchange(Started& s, std::size_t bytes, std::size_t with) {
    begin_receive(s, s.arriving.data(), bytes, with);
    begin_send(s, bytes, with);
  }
  void wait_for(Started& s) { wait_for_all(s.request); }

  // MPI's own waiting does not give way to other processes: it is very slow if there are fewer cores than
  // ranks and others.
  void wait_for_all(std::span<MPI_Request> requests) {
    for (int tries = 0, done = 0;; ++tries) {
      require(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE));
      if (done != 0) break;
      if (tries >= spins_) sched_yield();
    }
    messages_.fetch_add(1, std::memory_order_relaxed);
  }

  template <class Call>
  void finish_call(Call&& call) {
    MPI_Request request = MPI_REQUEST_NULL;
    require(call(&request));
    // Waits with MPI_Testall, which clang-tidy does not count.
    // NOLINTNEXTLINE(clang-analyzer-optin.mpi.MPI-Checker)
    wait_for_all({&request, 1});
  }

  template <class Real>
  Ticket start_any(Combine how, std::span<Real> numbers) {
    Started& s = slot(++last_);
    s.how = how, s.in_double = sizeof(Real) == sizeof(double);
    s.numbers = numbers.data(), s.count = numbers.size();
    const std::size_t bytes = numbers.size_bytes();
    traffic_.reductions += bytes > 0 ? 1 : 0, traffic_.combined += bytes;
    if (size_ == 1 || bytes > kMostPaired || bytes == 0) return last_;
    if (s.arriving.size() < bytes) s.arriving.resize(bytes);
    if (is_extra())
      begin_send(s, bytes, rank_ - paired_);
    else if (has_extra())
      begin_receive(s, s.arriving.data(), bytes, rank_ + paired_);
    else
      begin_exchange(s, bytes, rank_ ^ 1);
    return last_;
  }

  template <class Real>
  void combine_arrived(Started& s) {
    wait_for(s);
    const std::span<Real> numbers = numbers_of<Real>(s);
    combine_into<Real>(s.how, {reinterpret_cast<const Real*>(s.arriving.data()), s.count}, numbers);
  }

  template <class Real>
  void finish(Started& s) {
    const std::size_t bytes = s.count * sizeof(Real);
    if (size_ == 1 || bytes == 0) return;
    if (bytes > kMostPaired) return finish_large<Real>(s);
    if (is_extra()) {
      wait_for(s);
      begin_receive(s, s.numbers, bytes, rank_ - paired_);
      return wait_for(s);
    }
    if (has_extra()) {
      combine_arrived<Real>(s);
      if (paired_ > 1) begin_exchange(s, bytes, rank_ ^ 1);
    }
    for (std::size_t apart = 1; apart < paired_; apart *= 2) {
      if (apart > 1) begin_exchange(s, bytes, rank_ ^ apart);
      combine_arrived<Real>(s);
    }
    if (!has_extra()) return;
    begin_send(s, bytes, rank_ + paired_);
    wait_for(s);
  }

  template <class Real>
  void finish_large(Started& s) {
    const MPI_Datatype type = sizeof(Real) == sizeof(double) ? MPI_DOUBLE : MPI_FLOAT;
    const std::size_t part = (s.count + size_ - 1) / size_, bytes = part * sizeof(Real);
    std::vector<Real> padded(part * size_, Real{0}), own(part);
    std::memcpy(padded.data(), s.numbers, s.count * sizeof(Real));
    require(MPI_Reduce_scatter_block(padded.data(), own.data(), static_cast<int>(part), type,
                                     s.how == Combine::sum ? MPI_SUM : MPI_MAX, all_));
    gather_everywhere({reinterpret_cast<const std::byte*>(own.data()), bytes},
                      std::as_writable_bytes(std::span(padded)));
    std::memcpy(s.numbers, padded.data(), s.count * sizeof(Real));
    traffic_.sent += 2 * (size_ - 1) * bytes;  // a part to each other rank, and the sum of the own part
  }

  MPI_Comm all_ = MPI_COMM_NULL, end_ = MPI_COMM_NULL;
  std::size_t rank_ = 0, size_ = 1, paired_ = 1, here_ = 1;
  int spins_ = 0;  // before a rank that waits gives way to other processes
  Ticket last_ = 0;
  Traffic traffic_;
  bool lost_ = false;
  std::atomic<bool> stopping_ = false;
  std::atomic<std::uint64_t> messages_ = 0;
  std::array<Started, kMostStarted> started_;
};

}  // namespace truemax
