#!/usr/bin/python3
"""Dependencies between the folders of src/: a file includes only headers of its own folder and of those that
CMakeLists.txt lets it link, and ARCHITECTURE.md explains every folder. Kernels are tested on every instruction set."""
import os
import re
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def text_of(*parts):
    with open(os.path.join(ROOT, *parts), encoding="utf-8") as file:
        return file.read()


def allowed_rooms():
    links = {}
    for words in re.findall(r"^truemax_room\(([^)]*)\)", text_of("CMakeLists.txt"), re.M):
        name, *rest = words.split()
        listed = re.match(r"LINKS((?: (?!FAST|JSON)\w+)*)", " ".join(rest))
        links[name] = set(listed[1].split()) if listed else set()
    reachable = {}
    for room, direct in links.items():  # CMakeLists.txt lists a room after those it links
        reachable[room] = {room} | direct | set().union(*(reachable[d] for d in direct)) if direct else {room}
    return reachable


# Handlers of any exception, and handlers that do nothing. Each says here why it hides no error. docs/reliability.md
# has the rule.
HANDLERS = {
    "src/api/c_call.hpp": "a message did not fit in memory: the status that is returned says so",
    "src/api/c_layer.cpp": "memory of a pass could not be kept for the next one: it is freed instead",
    "src/core/parallel.cpp": "the first exception of a thread is thrown again in the caller's",
    "src/core/team.cpp": "the same; and threads that could not be started leave the work to the others",
    "src/cuda/emulated.hpp": "the first exception of an emulated thread is thrown again in the caller's",
    "src/data/cache_file.cpp": "the file is closed, then it is thrown again",
    "src/data/streamed_rows.cpp": "no thread to read ahead: the next window is read when it is needed",
    "src/data/text_source.cpp": "an error of reading ahead is thrown after those of earlier rows",
    "src/ranks/thread_ranks.cpp": "the first exception of a rank is thrown again; the others are told to give up",
    "src/train/block_lane.cpp": "the other threads are told to give up, then it is thrown again",
    "src/train/fit.cpp": "no thread or memory to clear pages of W ahead: its first steps clear them",
    "src/train/group_lane.cpp": "the same as block_lane.cpp",
    "src/train/visit_order.hpp": "no thread or memory to make the next epoch's order ahead: it is made when it is needed",
}


class Architecture(unittest.TestCase):
    def test_includes_follow_the_allowed_links(self):
        rooms, seen = allowed_rooms(), 0
        for room, allowed in rooms.items():
            for name in os.listdir(os.path.join(ROOT, "src", room)):
                for line in text_of("src", room, name).splitlines():
                    match = re.match(r'#include "(\w+)/', line)
                    if match and match[1] != "truemax":
                        seen += 1
                        self.assertIn(match[1], allowed, f"src/{room}/{name}: {line}")
        self.assertGreater(seen, 100)

    def test_every_folder_is_a_documented_room(self):
        folders = set(os.listdir(os.path.join(ROOT, "src")))
        self.assertEqual(folders, set(allowed_rooms()))
        words = text_of("ARCHITECTURE.md")
        for folder in folders:
            self.assertIn(f"src/{folder}/", words)

    def sources(self, *without):
        """(path, text) of every file of src/, except those of the rooms in `without`."""
        for room in sorted(set(allowed_rooms()) - set(without)):
            for name in sorted(os.listdir(os.path.join(ROOT, "src", room))):
                yield f"src/{room}/{name}", text_of("src", room, name)

    def test_only_data_knows_how_rows_are_stored(self):
        for path, text in self.sources("data"):
            for word in (r"\bwhole\(", r"\bborrowed\b", r"\bstore\(\)", r"\brow_at\("):
                self.assertIsNone(re.search(word, text), f"{path}: {word}")

    def test_only_weights_and_kernels_know_how_weights_are_stored(self):
        for path, text in self.sources("weights", "cuda"):
            for word in (r"\blane\(", r"\bmemory\(\)"):
                self.assertIsNone(re.search(word, text), f"{path}: {word}")

    def test_no_handler_hides_an_error(self):
        """catch (...) and empty handlers are on the list; those of any exception throw, keep or report it."""
        found = set()
        public = [(f"include/truemax/{name}", text_of("include", "truemax", name))
                  for name in sorted(os.listdir(os.path.join(ROOT, "include", "truemax")))]
        for path, text in [*self.sources(), *public]:
            if path.endswith("_test.cpp"):
                continue
            for handler in re.finditer(r"catch \(([^)]*)\) \{([^{}]*)\}", text):
                body = re.sub(r"//.*", "", handler[2]).strip()
                if body and handler[1] != "...":
                    continue
                found.add(path)
                if handler[1] == "...":
                    self.assertRegex(body, r"\bthrow;|std::current_exception\(\)|\breturn TMX_", path)
            # Nested braces in a handler of any exception would escape the pattern above.
            self.assertEqual(len(re.findall(r"catch \(\.\.\.\)", text)),
                             len(re.findall(r"catch \(\.\.\.\) \{[^{}]*\}", text)), path)
        self.assertEqual(found, set(HANDLERS))

    def test_dispatched_kernels_are_tested_on_every_instruction_set(self):
        seen = 0
        for room in allowed_rooms():
            names = sorted(os.listdir(os.path.join(ROOT, "src", room)))
            tests = [text_of("src", room, name) for name in names if name.endswith("_test.cpp")]
            tests = [text for text in tests if "OnInstructionSet" in text]
            for name in names:
                if name.endswith("_test.cpp"):
                    continue
                for kernel in re.findall(r"HWY_EXPORT\((\w+)_here\)", text_of("src", room, name)):
                    seen += 1
                    called = re.compile(rf"\b{kernel}\(")
                    self.assertTrue(any(called.search(text) for text in tests), f"src/{room}/{name}: {kernel}")
        self.assertGreater(seen, 10)


if __name__ == "__main__":
    unittest.main()
