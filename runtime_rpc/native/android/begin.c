/* Where a program for Android begins. The system's loader has run all constructors by then; the C library
   finds the words of the command line on the stack, calls `main` and ends the program with what it returns.

   See bionic's libc_init_common.h. There are neither constructors nor destructors here: the table of them
   is empty, in the forms of all its versions. */
#include <stddef.h>
#include <stdint.h>

int main(int, char **, char **);
_Noreturn void __libc_init(void *words, void (*)(void), int (*)(int, char **, char **), const void *);

__attribute__((used, visibility("hidden"))) _Noreturn void odtc_begin(void *words) {
  static const uintptr_t NOTHING[8];
  __libc_init(words, NULL, main, NOTHING);
}

__asm__(
    ".text\n"
    ".global _start\n"
    ".type _start, %function\n"
    "_start:\n"
    "  mov x29, #0\n"
    "  mov x30, #0\n"
    "  mov x0, sp\n"
    "  b odtc_begin\n"
    ".size _start, . - _start\n");
