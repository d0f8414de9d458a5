// What a run says when a rank has died. mpirun ends the others: SIGTERM, and SIGKILL a second later. They
// cannot go on and cannot tell each other, so a thread of each waits for the signal, and one of them on each
// machine says how to continue.
#pragma once

#include <mpi.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <string>
#include <thread>

#include "cli/command.hpp"

namespace truemax {

class LastWords {
 public:
  // `to`: where all are heard, whatever standard error is meanwhile.
  LastWords(int argc, char** argv, int to) : words_(words(argc, argv)), to_(to) {
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
    // Signals are for the thread that runs the program, which they interrupt.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::jthread([this](const std::stop_token& end) { watch(end); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  ~LastWords() {
    thread_.request_stop();
    thread_.join();
    MPI_Win_free(&window_);
    MPI_Comm_free(&machine_);
  }
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;

  // Once on each machine.
  void say() {
    int nobody = 0;
    if (!std::atomic_ref<int>(*said_).compare_exchange_strong(nobody, 1)) return;
    if (write(to_, words_.data(), words_.size()) < 0) return;
  }

 private:
  static std::string words(int argc, char** argv) {
    bool saves = false;
    for (int i = 1; i < argc; ++i) saves |= std::string(argv[i]).starts_with("--checkpoint");
    return std::string("truemax: told to end (SIGTERM), which mpirun does to all ranks if one has died. ") +
           (saves
                ? "To continue from the last checkpoint, give the same command with --resume, on any number "
                  "of ranks\n"
                : "Start it again; with --checkpoint FILE it could be continued\n");
  }

  // A run that still can ends by itself first. There is a second at most.
  void watch(const std::stop_token& end) {
    constexpr auto kOften = std::chrono::milliseconds(20);
    constexpr int kPatience = 6;
    for (int told = 0; told < kPatience && !end.stop_requested();) {
      std::this_thread::sleep_for(kOften);
      told += StopOnSignal::flag().load() && StopOnSignal::exit_code() == 128 + SIGTERM ? 1 : 0;
      if (told == kPatience) say();
    }
  }

  std::string words_;
  int to_;
  MPI_Comm machine_ = MPI_COMM_NULL;
  MPI_Win window_ = MPI_WIN_NULL;
  int* said_ = nullptr;  // shared by the ranks of a machine
  std::jthread thread_;
};

}  // namespace truemax
