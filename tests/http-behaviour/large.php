<?php
// Answers with so many bytes, in pieces.
if (isset($_GET['length'])) {
    header("content-length: $_GET[length]");
}
$left = (int) $_GET['bytes'];
while ($left > 0) {
    $piece = min($left, 65536);
    echo str_repeat('x', $piece);
    $left -= $piece;
}
