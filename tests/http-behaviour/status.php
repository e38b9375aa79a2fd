<?php
// Sets the status, several fields and several cookies.
http_response_code((int) ($_GET['code'] ?? 200));
header('X-Own: one, two');
header('X-Accent: ' . "caf\xc3\xa9");
setcookie('a', '1');
setcookie('b', '2', ['httponly' => true]);
if (($_GET['code'] ?? '') !== '204' && ($_GET['code'] ?? '') !== '304') {
    echo 'body';
}
