/* The core library of P4_16 (language specification 1.2.5, appendix D). */
#ifndef _CORE_P4_
#define _CORE_P4_

error {
    NoError,
    PacketTooShort,        // extract needs more bits than are left
    NoMatch,               // no case of a select matched
    StackOutOfBounds,      // an element that the header stack does not have
    HeaderTooShort,        // more bits than the varbit field can hold
    ParserTimeout,         // too many transitions
    ParserInvalidArgument  // a value that the parser's method does not take
}

match_kind { exact, ternary, lpm }

extern packet_in {
    // hdr is a header without varbit fields, or the next element of a stack.
    void extract<T>(out T hdr);
    // variableSizeHeader has one varbit field, which gets that many bits.
    void extract<T>(out T variableSizeHeader, in bit<32> variableFieldSizeInBits);
    T lookahead<T>();
    void advance(in bit<32> sizeInBits);
    bit<32> length(); // bytes
}

extern packet_out {
    // Headers that are not valid add nothing.
    void emit<T>(in T hdr);
}

extern void verify(in bool check, in error toSignal);

@noWarn("unused")
action NoAction() {}

extern bool static_assert(bool check, string message);
extern bool static_assert(bool check);

#endif
