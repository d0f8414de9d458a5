// truemax-link: a network link between two network namespaces with a given latency and bandwidth, for kernels
// whose tc lacks netem. Makes a TUN device in each and hands packets from one to the other when their time
// has come. bench/two_hosts.py runs it; needs root.
//
//   truemax-link NAMESPACE NAMESPACE DEVICE MICROSECONDS GBITS
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <string>
#include <vector>

namespace {

using Nanoseconds = std::int64_t;

Nanoseconds now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * Nanoseconds{1'000'000'000} + t.tv_nsec;
}

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "truemax-link: %s: %s\n", what, std::strerror(errno));
  std::exit(EXIT_FAILURE);
}

// A TUN device that takes segments as TCP makes them, larger than a packet: fewer of them cross.
int open_device(const std::string& name_space, const std::string& name) {
  const int own = open("/proc/self/ns/net", O_RDONLY),
            other = open(("/run/netns/" + name_space).c_str(), O_RDONLY);
  require(own >= 0 && other >= 0 && setns(other, CLONE_NEWNET) == 0, "cannot enter the namespace");
  const int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
  require(device >= 0, "cannot open /dev/net/tun");
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_flags = IFF_TUN | IFF_NO_PI | IFF_VNET_HDR;
  require(ioctl(device, TUNSETIFF, &request) == 0, "cannot make a TUN device");
  require(ioctl(device, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4) == 0, "cannot take large segments");
  require(setns(own, CLONE_NEWNET) == 0, "cannot leave the namespace");
  close(own), close(other);
  return device;
}

struct Packet {
  Nanoseconds due = 0;
  std::vector<char> bytes;
};

class OneWay {
 public:
  OneWay(int from, int to, Nanoseconds latency, double bytes_per_nanosecond)
      : from_(from), to_(to), latency_(latency), speed_(bytes_per_nanosecond) {}

  void take() {
    static std::array<char, 1 << 17> buffer;
    for (ssize_t size = 0; (size = read(from_, buffer.data(), buffer.size())) > 0;) {
      free_ = std::max(free_, now()) + static_cast<Nanoseconds>(static_cast<double>(size) / speed_);
      on_way_.push_back({free_ + latency_, {buffer.data(), buffer.data() + size}});
    }
  }
  void deliver() {
    for (; !on_way_.empty() && on_way_.front().due <= now(); on_way_.pop_front())
      if (write(to_, on_way_.front().bytes.data(), on_way_.front().bytes.size()) < 0) ++lost_;
  }
  Nanoseconds due() const { return on_way_.empty() ? INT64_MAX : on_way_.front().due; }

 private:
  int from_, to_;
  Nanoseconds latency_, free_ = 0;  // when the link has sent what it was given
  double speed_;
  std::deque<Packet> on_way_;
  std::uint64_t lost_ = 0;  // TCP sends them again
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "truemax-link NAMESPACE NAMESPACE DEVICE MICROSECONDS GBITS\n");
    return EXIT_FAILURE;
  }
  const int a = open_device(argv[1], argv[3]), b = open_device(argv[2], argv[3]);
  const auto latency = static_cast<Nanoseconds>(std::atof(argv[4]) * 1000);
  const double speed = std::atof(argv[5]) / 8;  // bytes per nanosecond
  OneWay there(a, b, latency, speed), back(b, a, latency, speed);
  // On time, whatever else the machine does.
  sched_param first{};
  first.sched_priority = 2;
  sched_setscheduler(0, SCHED_FIFO, &first);
  prctl(PR_SET_TIMERSLACK, 1);
  std::printf("ready\n");
  std::fflush(stdout);
  std::array<pollfd, 2> sources{pollfd{a, POLLIN, 0}, pollfd{b, POLLIN, 0}};
  while (true) {
    const Nanoseconds next = std::min(there.due(), back.due());
    const Nanoseconds wait = std::clamp<Nanoseconds>(next - now(), 0, 100'000'000);
    const timespec limit{0, static_cast<long>(wait)};
    ppoll(sources.data(), sources.size(), &limit, nullptr);
    there.take(), back.take();
    there.deliver(), back.deliver();
  }
}
