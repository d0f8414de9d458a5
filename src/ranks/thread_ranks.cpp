#include "ranks/thread_ranks.hpp"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "ranks/combine.hpp"

namespace truemax {
namespace {

using Bytes = std::vector<std::byte>;

// Where all ranks put what they send. Collective calls are numbered alike on all of them.
class Board {
 public:
  explicit Board(std::size_t size) : size_(size) {}

  std::size_t size() const { return size_; }

  void post(Ranks::Ticket ticket, std::size_t rank, Bytes bytes) {
    const std::lock_guard lock(mutex_);
    Call& call = calls_[ticket];
    call.parts.resize(size_);
    call.parts[rank] = std::move(bytes);
    ++call.posted;
    changed_.notify_all();
  }

  // Waits until all have posted, then calls use(parts).
  template <class Use>
  void collect(Ranks::Ticket ticket, Use&& use) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return broken_ || calls_[ticket].posted == size_; });
    require_whole();
    Call& call = calls_[ticket];
    use(call.parts);
    if (++call.taken == size_) calls_.erase(ticket);
  }

  void send(std::size_t from, std::size_t to, Bytes bytes) {
    const std::lock_guard lock(mutex_);
    mail_[{from, to}].push_back(std::move(bytes));
    changed_.notify_all();
  }

  Bytes receive(std::size_t from, std::size_t to) {
    std::unique_lock lock(mutex_);
    std::deque<Bytes>& box = mail_[{from, to}];
    changed_.wait(lock, [&] { return broken_ || !box.empty(); });
    if (box.empty()) require_whole();
    Bytes bytes = std::move(box.front());
    box.pop_front();
    return bytes;
  }

  // True for the first.
  bool give_up() {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
    return !std::exchange(broken_, true);
  }

 private:
  struct Call {
    std::vector<Bytes> parts;
    std::size_t posted = 0, taken = 0;
  };

  void require_whole() const {
    if (broken_) throw LostRanks("another rank has failed");
  }

  std::size_t size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Ranks::Ticket, Call> calls_;
  std::map<std::pair<std::size_t, std::size_t>, std::deque<Bytes>> mail_;
  bool broken_ = false;
};

void require_equal_sizes(const std::vector<Bytes>& parts) {
  for (const Bytes& part : parts)
    if (part.size() != parts[0].size()) throw std::logic_error("ranks disagree about the size of a message");
}

class ThreadRanks final : public Ranks {
 public:
  ThreadRanks(Board& board, std::size_t rank) : board_(board), rank_(rank) {}

  std::size_t rank() const override { return rank_; }
  std::size_t size() const override { return board_.size(); }
  std::size_t here() const override { return 1; }  // the number of threads and the memory are the test's
  Ticket start(Combine how, std::span<float> numbers) override { return start_any(how, numbers); }
  Ticket start(Combine how, std::span<double> numbers) override { return start_any(how, numbers); }

  void wait(Ticket ticket) override {
    if (started_.empty() || started_.front().ticket != ticket)
      throw std::logic_error("what was started first is waited for first");
    const Started started = started_.front();
    started_.pop_front();
    board_.collect(ticket, [&](const std::vector<Bytes>& parts) {
      require_equal_sizes(parts);
      if (started.in_double)
        combine_parts<double>(parts, started);
      else
        combine_parts<float>(parts, started);
    });
  }

  void broadcast(std::span<std::byte> bytes, std::size_t from) override {
    const Ticket ticket = post(bytes);
    board_.collect(ticket, [&](const std::vector<Bytes>& parts) {
      require_equal_sizes(parts);
      std::copy(parts[from].begin(), parts[from].end(), bytes.begin());
    });
  }

  void gather_everywhere(std::span<const std::byte> own, std::span<std::byte> all) override {
    const Ticket ticket = post(own);
    board_.collect(ticket, [&](const std::vector<Bytes>& parts) {
      require_equal_sizes(parts);
      for (std::size_t r = 0; r < parts.size(); ++r)
        std::copy(parts[r].begin(), parts[r].end(),
                  all.begin() + static_cast<std::ptrdiff_t>(r * own.size()));
    });
  }

  void send(std::span<const std::byte> bytes, std::size_t to) override {
    board_.send(rank_, to, Bytes(bytes.begin(), bytes.end()));
  }

  void receive(std::span<std::byte> bytes, std::size_t from) override {
    const Bytes there = board_.receive(from, rank_);
    if (there.size() != bytes.size()) throw std::logic_error("a message is longer or shorter than expected");
    std::copy(there.begin(), there.end(), bytes.begin());
  }

  void barrier() override {
    const Ticket ticket = post({});
    board_.collect(ticket, [](const std::vector<Bytes>& /*parts*/) {});
  }

 private:
  struct Started {
    Ticket ticket;
    Combine how;
    bool in_double;
    void* numbers;
  };

  Ticket post(std::span<const std::byte> bytes) {
    board_.post(++last_, rank_, Bytes(bytes.begin(), bytes.end()));
    return last_;
  }

  template <class Real>
  Ticket start_any(Combine how, std::span<Real> numbers) {
    if (started_.size() == kMostStarted) throw std::logic_error("too much is under way");
    const Ticket ticket = post(std::as_bytes(numbers));
    started_.push_back({ticket, how, sizeof(Real) == sizeof(double), numbers.data()});
    return ticket;
  }

  template <class Real>
  static void combine_parts(const std::vector<Bytes>& parts, const Started& started) {
    const std::size_t count = parts[0].size() / sizeof(Real);
    const std::span<Real> to(static_cast<Real*>(started.numbers), count);
    std::vector<Real> part(count);
    for (std::size_t r = 0; r < parts.size(); ++r) {
      if (count > 0) std::memcpy(part.data(), parts[r].data(), parts[r].size());
      if (r == 0)
        std::copy(part.begin(), part.end(), to.begin());
      else
        combine_into<Real>(started.how, part, to);
    }
  }

  Board& board_;
  std::size_t rank_;
  Ticket last_ = 0;
  std::deque<Started> started_;
};

}  // namespace

void run_thread_ranks(std::size_t size, const std::function<void(Ranks&)>& run) {
  Board board(size);
  std::exception_ptr first;
  const auto of_rank = [&](std::size_t rank) {
    ThreadRanks ranks(board, rank);
    const UseRanks use(ranks);
    try {
      run(ranks);
    } catch (...) {
      if (board.give_up()) first = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < size; ++rank) threads.emplace_back(of_rank, rank);
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace truemax
