// How the ranks of a run end when mpirun ends them, and what they say then. If a rank has died, or after
// Ctrl-C, mpirun sends SIGCONT, a second later SIGTERM and a second after that SIGKILL. A SIGCONT for a
// process that was not suspended counts as SIGTERM, so that there is time to save.
//
// If a rank has died, the others cannot go on and cannot tell each other: a thread of each waits for the
// signal, and one of them on each machine says how to continue.
#pragma once

#include <mpi.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include "cli/command.hpp"
#include "core/claim.hpp"
#include "mpi/mpi_ranks.hpp"

namespace truemax {

class LastWords {
 public:
  // `to`: where all are heard, whatever standard error is meanwhile.
  LastWords(const MpiRanks& ranks, int argc, char** argv, int to)
      : ranks_(ranks), words_(words(argc, argv)), to_(to) {
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine_);
    int rank = 0, unit = 0;
    MPI_Comm_rank(machine_, &rank);
    MPI_Aint size = rank == 0 ? sizeof(int) : 0;
    void* memory = nullptr;
    MPI_Win_allocate_shared(size, 1, MPI_INFO_NULL, machine_, &memory, &window_);
    MPI_Win_shared_query(window_, 0, &size, &unit, &memory);
    said_ = static_cast<int*>(memory);
    if (rank == 0) *said_ = 0;
    MPI_Barrier(machine_);
    current_ = this;
    handle(SIGTERM, [](int signal) { end(signal); });
    handle(SIGCONT, [](int /*signal*/) { continued_.store(true); });
    // Signals are for the thread that runs the program, which they interrupt.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::jthread([this](const std::stop_token& over) { watch(over); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  ~LastWords() {
    thread_.request_stop();
    thread_.join();
    signal(SIGTERM, SIG_DFL);
    signal(SIGCONT, SIG_DFL);
    current_ = nullptr;
    MPI_Win_free(&window_);
    MPI_Comm_free(&machine_);
  }
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;

  // Once on each machine. Also called by a signal handler.
  void say() {
    int nobody = 0;
    if (!std::atomic_ref<int>(*said_).compare_exchange_strong(nobody, 1)) return;
    if (write(to_, words_.data(), words_.size()) < 0) return;
  }

 private:
  using Clock = std::chrono::steady_clock;

  static std::string words(int argc, char** argv) {
    bool saves = false;
    for (int i = 1; i < argc; ++i) saves |= std::string(argv[i]).starts_with("--checkpoint");
    const bool trains = argc > 1 && std::string(argv[1]) == "train";
    return std::string(
               "truemax: told to end (SIGTERM), which mpirun does to all ranks if one has died or after "
               "Ctrl-C. ") +
           (saves
                ? "To continue from the last checkpoint, give the same command with --resume, on any number "
                  "of ranks\n"
            : trains ? "Start it again; with --checkpoint FILE it could be continued\n"
                     : "Start it again\n");
  }

  static void handle(int number, void (*handler)(int)) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigaction(number, &action, nullptr);
  }

  // While the program does not catch SIGTERM itself: before and after training, and in other commands.
  static void end(int number) {
    if (current_ != nullptr) current_->say();
    drop_claims_on_signal();
    signal(number, SIG_DFL);
    raise(number);
  }

  void watch(const std::stop_token& over) {
    constexpr auto kOften = std::chrono::milliseconds(20), kSuspended = std::chrono::milliseconds(250);
    constexpr auto kForget = std::chrono::seconds(1);
    constexpr int kPatience =
        30;  // looks without a message: a run that can still stop by itself does so first
    std::uint64_t messages = 0;
    Clock::time_point last = Clock::now(), resumed = last - kForget;
    for (int told = 0; !over.stop_requested();) {
      std::this_thread::sleep_for(kOften);
      const Clock::time_point now = Clock::now();
      if (now - last > kSuspended) resumed = now;  // suspended, or starved: SIGCONT says nothing then
      last = now;
      if (continued_.exchange(false) && now - resumed >= kForget) kill(getpid(), SIGTERM);
      const bool waits = messages == ranks_.messages() && !ranks_.stopping();
      messages = ranks_.messages();
      told = waits && StopOnSignal::flag().load() && StopOnSignal::number() == SIGTERM ? told + 1 : 0;
      if (told == kPatience) say();
    }
  }

  static inline LastWords* current_ = nullptr;
  static inline std::atomic<bool> continued_ = false;

  const MpiRanks& ranks_;
  std::string words_;
  int to_;
  MPI_Comm machine_ = MPI_COMM_NULL;
  MPI_Win window_ = MPI_WIN_NULL;
  int* said_ = nullptr;  // shared by the ranks of a machine
  std::jthread thread_;
};

}  // namespace truemax
