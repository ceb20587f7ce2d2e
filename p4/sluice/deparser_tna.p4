// The body of both deparsers: headers in the order of the wire.
#ifdef TNA_CHECKSUM
        if (meta.changed) {
            hdr.ipv4.checksum = ipv4_checksum.update({
                hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.total_len, hdr.ipv4.identification, hdr.ipv4.flags,
                hdr.ipv4.frag_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst });
        }
#endif
        pkt.emit(hdr.mac);
        pkt.emit(hdr.vlan);
#ifdef TAG_CSIG
        pkt.emit(hdr.wide);
        pkt.emit(hdr.wide_back);
        pkt.emit(hdr.compact);
        pkt.emit(hdr.compact_back);
#endif
#ifdef TAG_VALUE
        pkt.emit(hdr.tag);
        pkt.emit(hdr.tag_back);
#endif
        pkt.emit(hdr.ethertype);
        pkt.emit(hdr.ipv4);
        pkt.emit(hdr.ipv6);
        pkt.emit(hdr.udp);
#ifdef WITH_INT
        pkt.emit(hdr.shim);
        pkt.emit(hdr.mine);
#include "emit_hops.p4"
#endif
        pkt.emit(hdr.bth);
