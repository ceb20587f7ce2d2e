// In a deparser: the records in the order of the wire, which is that of parser.p4.
#if INT_HOPS == 8
        pkt.emit(hdr.hops[7]);
        pkt.emit(hdr.hops[6]);
#endif
        pkt.emit(hdr.hops[5]);
        pkt.emit(hdr.hops[4]);
        pkt.emit(hdr.hops[3]);
        pkt.emit(hdr.hops[2]);
        pkt.emit(hdr.hops[1]);
        pkt.emit(hdr.hops[0]);
