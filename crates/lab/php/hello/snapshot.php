<?php

// Boots once in Stoker's PHP host.

require __DIR__ . '/probe.php';

stoker_handle(static function (): string {
    header('content-type: text/plain; charset=UTF-8');

    return Lab\answer($_GET);
}, sample: '/');
