"""Every small model, with every option: the same bits by TVM's virtual machine and in C."""
