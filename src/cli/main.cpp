#include "cli/command.hpp"

int main(int argc, char** argv) {
  return truemax::run_program(argc, argv);
}
