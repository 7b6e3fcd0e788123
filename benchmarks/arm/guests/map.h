/* Leaves the memory map of a guest in the file `maps`. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

static void copy_map(void) {
  char bytes[4096];
  ssize_t count;
  int from = open("/proc/self/maps", O_RDONLY), to = open("maps", O_CREAT | O_WRONLY | O_TRUNC, 0600);
  while ((count = read(from, bytes, sizeof bytes)) > 0)
    if (write(to, bytes, (size_t)count) != count) exit(4);
  close(from), close(to);
}
