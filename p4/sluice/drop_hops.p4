// In a sink: all records are taken off.
        hdr.hops[0].setInvalid();
        hdr.hops[1].setInvalid();
        hdr.hops[2].setInvalid();
        hdr.hops[3].setInvalid();
        hdr.hops[4].setInvalid();
        hdr.hops[5].setInvalid();
#if INT_HOPS == 8
        hdr.hops[6].setInvalid();
        hdr.hops[7].setInvalid();
#endif
