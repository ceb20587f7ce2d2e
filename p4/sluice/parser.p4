// The states of every parser of these programs, from the first byte of the frame:
// included inside a parser that has pkt and hdr.
//
// What is not understood is payload and stays as it is: a second VLAN tag, IPv4 with
// options or in fragments, extension headers of IPv6, another INT.

    state parse_frame {
        pkt.extract(hdr.mac);
        transition select(pkt.lookahead<bit<16>>()) {
            ETHERTYPE_VLAN: parse_vlan;
            default: parse_tags;
        }
    }

    state parse_vlan {
        pkt.extract(hdr.vlan);
        transition parse_tags;
    }

#ifdef TAG_CSIG
    // A tag of any signal but a reflected one counts as the forward tag: a switch
    // that takes tags off takes off all of them.
    state parse_tags {
        transition select(pkt.lookahead<bit<16>>()) {
            ETHERTYPE_WIDE: parse_first_wide;
            ETHERTYPE_COMPACT: parse_first_compact;
            default: parse_ethertype;
        }
    }

    state parse_first_wide {
        transition select(pkt.lookahead<wide_t>().t) {
            SIGNAL_REFLECTED: parse_wide_back;
            default: parse_wide;
        }
    }

    state parse_wide {
        pkt.extract(hdr.wide);
        transition select(pkt.lookahead<bit<16>>()) {
            ETHERTYPE_WIDE: parse_second_wide;
            default: parse_ethertype;
        }
    }

    state parse_second_wide {
        transition select(pkt.lookahead<wide_t>().t) {
            SIGNAL_REFLECTED: parse_wide_back;
            default: parse_ethertype;
        }
    }

    state parse_wide_back {
        pkt.extract(hdr.wide_back);
        transition parse_ethertype;
    }

    state parse_first_compact {
        transition select(pkt.lookahead<compact_t>().t) {
            SIGNAL_REFLECTED: parse_compact_back;
            default: parse_compact;
        }
    }

    state parse_compact {
        pkt.extract(hdr.compact);
        transition select(pkt.lookahead<bit<16>>()) {
            ETHERTYPE_COMPACT: parse_second_compact;
            default: parse_ethertype;
        }
    }

    state parse_second_compact {
        transition select(pkt.lookahead<compact_t>().t) {
            SIGNAL_REFLECTED: parse_compact_back;
            default: parse_ethertype;
        }
    }

    state parse_compact_back {
        pkt.extract(hdr.compact_back);
        transition parse_ethertype;
    }
#elif defined(TAG_VALUE)
    state parse_tags {
        transition select(pkt.lookahead<bit<32>>()) {
            (ETHERTYPE_VALUE << 16) &&& 0xffff8000: parse_tag;
            (ETHERTYPE_VALUE << 16) + 0x8000 &&& 0xffff8000: parse_tag_back;
            default: parse_ethertype;
        }
    }

    state parse_tag {
        pkt.extract(hdr.tag);
        transition select(pkt.lookahead<bit<32>>()) {
            (ETHERTYPE_VALUE << 16) + 0x8000 &&& 0xffff8000: parse_tag_back;
            default: parse_ethertype;
        }
    }

    state parse_tag_back {
        pkt.extract(hdr.tag_back);
        transition parse_ethertype;
    }
#else
    state parse_tags {
        transition parse_ethertype;
    }
#endif

    state parse_ethertype {
        pkt.extract(hdr.ethertype);
        transition select(hdr.ethertype.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_IPV6: parse_ipv6;
            default: accept;
        }
    }

    state parse_ipv4 {
        pkt.extract(hdr.ipv4);
#ifdef TNA_CHECKSUM
        ipv4_checksum.add(hdr.ipv4);
        meta.checksum_error = ipv4_checksum.verify();
#endif
        // No options, and neither More Fragments nor an offset.
        transition select(hdr.ipv4.ihl, hdr.ipv4.flags, hdr.ipv4.frag_offset, hdr.ipv4.protocol) {
            (4w5, 3w0 &&& 3w1, 13w0, 8w17): parse_udp;
            default: accept;
        }
    }

    state parse_ipv6 {
        pkt.extract(hdr.ipv6);
        transition select(hdr.ipv6.next_header) {
            PROTOCOL_UDP: parse_udp;
            default: accept;
        }
    }

    state parse_udp {
        pkt.extract(hdr.udp);
        transition select(hdr.udp.dst_port) {
            ROCE_PORT: parse_bth;
#ifdef WITH_INT
            INT_PORT: parse_shim;
#endif
            default: accept;
        }
    }

#ifdef WITH_INT
    // The shim says how many records follow. A length that is none of these, or
    // another type, is not ours: bth stays invalid, and nothing is done. hops[0] is the
    // last of the records: Tofino's compiler wants a state to name the header that it
    // extracts, if it is reached from several places.
    state parse_shim {
        pkt.extract(hdr.shim);
        transition select(hdr.shim.type_, hdr.shim.npt, hdr.shim.words) {
            (INT_TYPE, INT_NPT, 0): parse_bth;
            (INT_TYPE, INT_NPT, 2): parse_1_hop;
            (INT_TYPE, INT_NPT, 4): parse_2_hops;
            (INT_TYPE, INT_NPT, 6): parse_3_hops;
            (INT_TYPE, INT_NPT, 8): parse_4_hops;
            (INT_TYPE, INT_NPT, 10): parse_5_hops;
            (INT_TYPE, INT_NPT, 12): parse_6_hops;
#if INT_HOPS == 8
            (INT_TYPE, INT_NPT, 14): parse_7_hops;
            (INT_TYPE, INT_NPT, 16): parse_8_hops;
#endif
            default: accept;
        }
    }

#if INT_HOPS == 8
    state parse_8_hops { pkt.extract(hdr.hops[7]); transition parse_7_hops; }
    state parse_7_hops { pkt.extract(hdr.hops[6]); transition parse_6_hops; }
#endif
    state parse_6_hops { pkt.extract(hdr.hops[5]); transition parse_5_hops; }
    state parse_5_hops { pkt.extract(hdr.hops[4]); transition parse_4_hops; }
    state parse_4_hops { pkt.extract(hdr.hops[3]); transition parse_3_hops; }
    state parse_3_hops { pkt.extract(hdr.hops[2]); transition parse_2_hops; }
    state parse_2_hops { pkt.extract(hdr.hops[1]); transition parse_1_hop; }
    state parse_1_hop { pkt.extract(hdr.hops[0]); transition parse_bth; }
#endif

    state parse_bth {
        pkt.extract(hdr.bth);
        transition accept;
    }
