<?php
// Answers with everything that the script knows of its request.
header('content-type: application/json');
$names = ['REQUEST_METHOD', 'REQUEST_URI', 'QUERY_STRING', 'HTTPS', 'REMOTE_ADDR', 'SCRIPT_NAME', 'SCRIPT_FILENAME', 'DOCUMENT_ROOT', 'CONTENT_TYPE', 'CONTENT_LENGTH', 'SERVER_PROTOCOL', 'SERVER_NAME', 'SERVER_PORT', 'PATH_INFO'];
$files = [];
foreach ($_FILES as $name => $file) {
    $files[$name] = ['name' => $file['name'], 'size' => $file['size'], 'error' => $file['error'], 'crc' => crc32(file_get_contents($file['tmp_name']))];
}
$headers = array_filter($_SERVER, fn ($name) => str_starts_with($name, 'HTTP_'), ARRAY_FILTER_USE_KEY);
$body = file_get_contents('php://input');
echo json_encode([
    'server' => array_intersect_key($_SERVER, array_flip($names)),
    'headers' => $headers,
    'get' => $_GET,
    'post' => $_POST,
    'cookies' => $_COOKIE,
    'files' => $files,
    'body' => strlen($body) < 1000 ? $body : '',
    'length' => strlen($body),
    'crc' => crc32($body),
]);
